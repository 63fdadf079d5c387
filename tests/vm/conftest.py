# SPDX-License-Identifier: Apache-2.0
import os
import sys

import pytest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))


@pytest.fixture(scope="session", autouse=True)
def test_kernel(request):
    """The kernel of the shared home, unless the caller names one."""
    if "BOXLITE_TEST_KERNEL" not in os.environ:
        os.environ["BOXLITE_TEST_KERNEL"] = str(request.getfixturevalue("home") / "kernels" / "default")
    yield

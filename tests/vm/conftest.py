# SPDX-License-Identifier: Apache-2.0
import sys
import os

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

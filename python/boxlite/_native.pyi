# The extension is made by build_native.py: cffi's objects have no types of their own.
from typing import Any

ffi: Any
lib: Any

"""Options listed in the docstrings of the functions that take them."""

import inspect
import re
from collections.abc import Callable
from typing import Any, TypeVar, get_args

from pipeline.run.options import FLAGS, RECORDS

Function = TypeVar("Function", bound=Callable[..., Any])


def lists_options(function: Function) -> Function:
    """Append the options that a function takes as keywords to its docstring, as their records describe them."""
    [kind] = get_args(function.__annotations__["options"])
    lines = ["", "", "Keyword Args:"]
    for name, hint in kind.__annotations__.items():
        record = RECORDS.get(name)
        text, default = (record.help, record.default) if record else (RECORDS[name.removeprefix("no_")].without, False)
        text = re.sub("--[a-z-]+", lambda flag: FLAGS.get(flag[0], flag[0]), text)
        text += f"  [default: {default!r}]" if default is not None else ""
        lines.append(f"    {name} ({re.sub(r'[a-z.]+[.](?=[A-Z])', '', inspect.formatannotation(hint))}): {text}")
    function.__doc__ = inspect.cleandoc(function.__doc__ or "") + "\n".join(lines)
    return function

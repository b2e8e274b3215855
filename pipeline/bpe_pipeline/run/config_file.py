"""Read configuration files: YAML, JSON and TOML with the names of options, each once and of bounded size."""

import json
import re
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any

from bpe_pipeline.base.errors import UsageError
from bpe_pipeline.run.options import FLAGS
from bpe_pipeline.storage import CONFIG_BYTES, Location, read_bounded

# A dotted name in TOML; tomllib takes time that grows with the square of its parts.
_LONG_NAME = re.compile(r"""(?<![\w-])(?:(?:[\w-]++|"[^"\n]*+"|'[^'\n]*+')[ \t]*+\.[ \t]*+){64}""")


def read_config(path: Location) -> dict[str, Any]:
    """Read the names and values in a YAML, JSON or TOML file, dashes as underscores."""
    try:
        text = read_bounded(path, CONFIG_BYTES).decode("utf-8-sig").replace("\r\n", "\n")
        values = _parse_config(path.suffix.lower(), text)
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise UsageError(f"configuration file {path} cannot be read: {reason}; give a readable UTF-8 file") from None
    except ValueError as error:
        raise UsageError(f"configuration file {path}: {' '.join(str(error).split())}") from None
    except RecursionError:
        raise UsageError(
            f"configuration file {path} is nested too deeply; it needs only names and values, such as "
            "'vocab_size: 32000'"
        ) from None
    if not isinstance(values, dict) or not all(isinstance(name, str) for name in values):
        raise UsageError(f"configuration file {path} must hold names and values, such as 'vocab_size: 32000'")
    renamed: dict[str, Any] = {}
    spelt: dict[str, str] = {}
    for name, value in values.items():
        known = FLAGS.get("--" + name.replace("_", "-"), name.replace("-", "_"))
        if known in renamed:
            raise UsageError(
                f"configuration file {path} has both {spelt[known]!r} and {name!r}, which are one option; remove one"
            )
        renamed[known], spelt[known] = value, name
    return renamed


def _each_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) < len(pairs):
        twice = next(name for name, number in Counter(name for name, _ in pairs).items() if number > 1)
        raise ValueError(f"{twice!r} is given twice; remove one")
    return values


def _number(read: Callable[[Any, Any], Any], loader: Any, node: Any) -> Any:
    """Leave 1:30, which is 90 in YAML 1.1, and 010, which is 8, as text: the option's reader takes or refuses it."""
    return node.value if re.search(":|^[-+]?0[0-9_]", node.value) else read(loader, node)


def _parse_config(suffix: str, text: str) -> object:
    if suffix == ".json":
        return json.loads(text, object_pairs_hook=_each_once)
    if suffix == ".toml":
        import tomllib

        if _LONG_NAME.search(text):
            raise ValueError("a name in it has more than 64 parts: give names of options")
        return tomllib.loads(text)
    if suffix in (".yaml", ".yml"):
        import yaml

        class Loader(yaml.SafeLoader):
            """Without aliases: lists of aliases of lists of aliases ... are more than could ever be shown."""

            def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
                if self.check_event(yaml.AliasEvent):
                    raise ValueError("it has an alias (*name): write the value out")
                return super().compose_node(parent, index)

            def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
                _each_once([(name.value, None) for name, _ in node.value if isinstance(name, yaml.ScalarNode)])
                return super().construct_mapping(node, deep)

        for name in ("tag:yaml.org,2002:int", "tag:yaml.org,2002:float"):
            Loader.add_constructor(name, partial(_number, yaml.SafeLoader.yaml_constructors[name]))
        try:
            return yaml.load(text, Loader)  # noqa: S506 - a safe one
        except yaml.YAMLError as error:
            raise ValueError(str(error)) from None
    raise ValueError("the name must end in .yaml, .yml, .json or .toml")

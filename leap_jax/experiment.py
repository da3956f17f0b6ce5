"""An experiment file and the values that a command line changes in it -> a config."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from absl import flags
from ml_collections import ConfigDict, config_flags


class ConfigError(ValueError):
    """A config value that cannot be used; one line that names the key."""


def load(path: str, overrides: Sequence[str]) -> ConfigDict:
    """The config of `path` ("experiments/leap.py:smoke") with KEY=VALUE overrides, read as `--config.KEY=VALUE` is.

    Raises ConfigError for a file that does not load, an unknown key and a value of the wrong type.
    """
    arguments = ["", f"--config={path}", *(f"--config.{override}" for override in overrides)]
    values = flags.FlagValues()
    with flag_errors():
        config_flags.DEFINE_config_file("config", lock_config=True, flag_values=values, sys_argv=arguments)
        values(arguments)
        values.config.to_dict()  # a file that does not load raises here
        return values.config


def flatten(config: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """{"gate.mode": "window", ...}"""
    flat: dict[str, Any] = {}
    for key, value in config.items():
        if isinstance(value, (Mapping, ConfigDict)):
            flat |= flatten(value, f"{prefix}{key}.")
        else:
            flat[prefix + key] = value
    return flat


@contextmanager
def flag_errors() -> Iterator[None]:
    """Turn what the flag library raises into a ConfigError of one line."""
    try:
        yield
    except (AttributeError, KeyError, TypeError) as error:
        while isinstance(error.args[0], Exception):  # of the same error, wrapped
            error = error.args[0]
        what = " ".join(str(error.args[0]).split())
        raise ConfigError(f"unknown config key {what} (the keys are in experiments/leap.py)") from error
    except (flags.Error, ValueError, OSError, ImportError) as error:
        raise ConfigError(str(error).strip().splitlines()[-1].strip()) from error  # it may quote a whole traceback

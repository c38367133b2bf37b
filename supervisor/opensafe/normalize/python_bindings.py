"""What the names of a Python program stand for: modules, and the expressions that they are bound to."""

import ast
import sys
from typing import Final

from .modelled import NotModelledError, require
from .python_names import FOREIGN, MEMBERS, MODULES, SUBMODULES

#: An expression of which nothing is known.
UNKNOWN: Final = ast.Constant(value=None)


class Bindings:
    """`modules` by the names they go by; to what names are `bound`, and whether to each item of that."""

    def __init__(self) -> None:
        self.modules: dict[str, str] = {}
        self.bound: dict[str, list[tuple[ast.expr, bool]]] = {}

    def bind(self, node: ast.AST) -> None:
        """Note what a statement binds. Raises NotModelledError for a module that is on no list."""
        match node:
            case ast.Import(names=names):
                for alias in names:
                    require(is_listed(alias.name))
                    self.modules[alias.asname or alias.name.partition(".")[0]] = (
                        alias.name if alias.asname else alias.name.partition(".")[0]
                    )
            case ast.ImportFrom(module=module, names=names, level=0) if module is not None:
                require(is_listed(module))
                for alias in names:
                    require(alias.name != "*")
                    full = f"{module}.{alias.name}"
                    self.modules[alias.asname or alias.name] = full
            case ast.ImportFrom():
                raise NotModelledError
            case ast.Assign(targets=targets, value=value):
                for target in targets:
                    self._target(target, value, each=False)
            case ast.AnnAssign(target=target, value=ast.expr() as value) | ast.NamedExpr(target=target, value=value):
                self._target(target, value, each=False)
            case ast.AugAssign(target=ast.Name(id=name), value=value):
                self.bound.setdefault(name, []).append((value, False))
                self.bound[name].append((UNKNOWN, False))
            case ast.For(target=target, iter=value) | ast.AsyncFor(target=target, iter=value):
                self._target(target, value, each=True)
            case ast.comprehension(target=target, iter=value):
                self._target(target, value, each=True)
            case ast.withitem(optional_vars=ast.expr() as target, context_expr=value):
                self._target(target, value, each=False)
            case _:
                pass

    def _target(self, target: ast.expr, value: ast.expr, *, each: bool) -> None:
        match target:
            case ast.Name(id=name):
                self.bound.setdefault(name, []).append((value, each))
            case ast.Tuple(elts=parts) | ast.List(elts=parts):
                for at, part in enumerate(parts):
                    one: ast.expr = UNKNOWN
                    if not each and isinstance(value, ast.Tuple) and len(value.elts) == len(parts):
                        one = value.elts[at]
                    elif each and isinstance(value, ast.Call) and self.full(value.func) == "os.walk" and at == 0:
                        one = value
                    elif each and isinstance(value, ast.Call) and self.full(value.func) == "enumerate" and at == 1:
                        one = value.args[0] if value.args else UNKNOWN
                    self._target(part, one, each=each)
            case ast.Starred(value=inner):
                self._target(inner, UNKNOWN, each=each)
            case _:
                pass

    def full(self, node: ast.expr) -> str:
        """The name of a function with its module's: `p` for `os.path` in `p.join` is `os.path.join`; "" for others."""
        match node:
            case ast.Name(id=name):
                return self.modules.get(name, name if name not in self.bound else "")
            case ast.Attribute(value=base, attr=attribute):
                full = self.full(base)
                return f"{full}.{attribute}" if full else ""
            case _:
                return ""


def is_listed(name: str) -> bool:
    """A harmless module of the library, or one that is none of the library's: the workspace's own."""
    root = name.partition(".")[0]
    if root not in sys.stdlib_module_names:
        return not root.startswith("_") and root not in FOREIGN
    return name in MODULES or (root in MODULES and name not in SUBMODULES and root not in MEMBERS) or name in MEMBERS

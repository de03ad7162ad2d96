"""The series and labels that PromQL expressions name."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

import promql_parser as parser

# Of Prometheus itself, or added by its configuration.
TARGET_LABELS = {"namespace", "job", "instance", "pod", "service", "endpoint", "container"}


@dataclass
class Use:
    """A series, the labels that select it or group its samples, and their values."""

    name: str
    labels: set[str] = field(default_factory=set)
    # Label, and a value that it is compared with.
    values: set[tuple[str, str]] = field(default_factory=set)


def uses(expression: str) -> list[Use]:
    """The series that an expression reads. Grouping labels count for all series below."""
    # Grafana replaces its variables with durations and regexes.
    expression = re.sub(r"\$__(rate_interval|range)", "5m", expression)
    return list(_uses(parser.parse(expression), set()))


def _uses(node, grouping: set[str]) -> Iterator[Use]:
    if isinstance(node, parser.AggregateExpr):
        yield from _uses(node.expr, grouping | _labels(node.modifier))
    elif isinstance(node, parser.BinaryExpr):
        matching = node.modifier.matching if node.modifier else None
        for side in (node.lhs, node.rhs):
            yield from _uses(side, grouping | _labels(matching))
    elif isinstance(node, parser.Call):
        for argument in node.args:
            yield from _uses(argument, grouping)
    elif isinstance(node, parser.ParenExpr | parser.UnaryExpr | parser.SubqueryExpr):
        yield from _uses(node.expr, grouping)
    elif isinstance(node, parser.MatrixSelector):
        yield from _uses(node.vector_selector, grouping)
    elif isinstance(node, parser.VectorSelector):
        yield _selector(node, grouping)
    else:
        assert isinstance(node, parser.NumberLiteral | parser.StringLiteral), node


def _selector(node, grouping: set[str]) -> Use:
    use = Use(node.name, set(grouping))
    for matcher in node.matchers.matchers:
        use.labels.add(matcher.name)
        use.values |= {(matcher.name, value) for value in matcher.value.split("|")}
    return use


def _labels(modifier) -> set[str]:
    return set(modifier.labels) if modifier else set()

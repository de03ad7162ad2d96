"""Panels of Capstan's dashboards."""

import itertools

from grafana_foundation_sdk.builders.common import (
    ReduceDataOptions,
    VizLegendOptions,
    VizTooltipOptions,
)
from grafana_foundation_sdk.builders.dashboard import (
    Dashboard,
    DatasourceVariable,
    QueryVariable,
    Row,
)
from grafana_foundation_sdk.builders.prometheus import Dataquery
from grafana_foundation_sdk.builders.stat import Panel as Stat
from grafana_foundation_sdk.builders.timeseries import Panel as TimeSeries
from grafana_foundation_sdk.models.common import (
    LegendDisplayMode,
    LegendPlacement,
    TooltipDisplayMode,
)
from grafana_foundation_sdk.models.dashboard import (
    DashboardCursorSync,
    DataSourceRef,
    VariableHide,
    VariableRefresh,
)

# The replicas that a dashboard shows. Plain Prometheus sets no namespace, which `.*` matches, too.
SELECTED = 'namespace=~"$namespace",job=~"$job",instance=~"$instance"'
# Recorded for all replicas of a service.
SERVICE = 'namespace=~"$namespace",job=~"$job"'
_SOURCE = DataSourceRef(type_val="prometheus", uid="$datasource")
_WIDTHS = {1: 24, 2: 12, 3: 8, 4: 6, 6: 4}


def series(title: str, unit: str, description: str, *queries: tuple[str, str]) -> TimeSeries:
    """Lines over time: each query is an expression and the legend of its series."""
    panel = TimeSeries().title(title).description(description).unit(unit).datasource(_SOURCE)
    for ref, (expression, legend) in enumerate(queries):
        panel.with_target(_query(ref, expression, legend))
    legend = VizLegendOptions().show_legend(True).display_mode(LegendDisplayMode.LIST)
    panel.legend(legend.placement(LegendPlacement.BOTTOM))
    panel.tooltip(VizTooltipOptions().mode(TooltipDisplayMode.MULTI))
    return panel.min(0)


def stat(title: str, unit: str, description: str, expression: str) -> Stat:
    """The last value."""
    panel = Stat().title(title).description(description).unit(unit).datasource(_SOURCE)
    panel.reduce_options(ReduceDataOptions().calcs(["lastNotNull"]))
    return panel.with_target(_query(0, expression, ""))


def dashboard(title: str, uid: str, description: str, rows: dict[str, list]) -> Dashboard:
    """A dashboard with rows of panels of equal width. A row without panels is left out."""
    board = (
        Dashboard(title)
        .description(description)
        .uid(uid)
        .tags(["capstan"])
        .editable()
        .refresh("30s")
    )
    board.time("now-3h", "now").tooltip(DashboardCursorSync.CROSSHAIR).timezone("browser")
    board.with_variable(DatasourceVariable("datasource").label("Data source").type("prometheus"))
    board.with_variable(_variable("namespace", "capstan_build_info"))
    board.with_variable(_variable("job", 'capstan_build_info{namespace=~"$namespace"}'))
    of_job = 'capstan_build_info{namespace=~"$namespace",job=~"$job"}'
    board.with_variable(_variable("instance", of_job))
    ids = itertools.count(1)
    for name, panels in filter(lambda row: row[1], rows.items()):
        board.with_row(Row(name).id(next(ids)))
        for panel in panels:
            board.with_panel(panel.id(next(ids)).span(_WIDTHS.get(len(panels), 6)).height(8))
    return board


def _query(ref: int, expression: str, legend: str) -> Dataquery:
    return Dataquery().ref_id(chr(ord("A") + ref)).expr(expression).legend_format(legend)


def _variable(label: str, of: str) -> QueryVariable:
    variable = QueryVariable(label).query(f"label_values({of}, {label})").datasource(_SOURCE)
    variable.refresh(VariableRefresh.ON_TIME_RANGE_CHANGED).hide(VariableHide.DONT_HIDE)
    return variable.multi(True).include_all(True).all_value(".*")

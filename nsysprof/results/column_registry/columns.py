"""List every table file that nsysprof writes (FILES), with the meaning of each column: the registry of columns.

CSV writers, readers, joins and docs/files.md take names, types, units and sentences from here. To add a column, add it
to its file; to add a file, add it to FILES.
"""

from __future__ import annotations

from nsysprof.results.column_registry import analysis_columns, case_columns, export_columns, rank_columns
from nsysprof.results.column_registry.column import TableFile

FILES: tuple[TableFile, ...] = (
    *case_columns.FILES,
    *analysis_columns.FILES,
    *rank_columns.FILES,
    *export_columns.FILES,
)

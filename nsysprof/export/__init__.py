"""Write a trace in the formats of other tools: Perfetto's protobuf, Chrome's JSON, and Parquet."""

//! A plain git directory: dry runs, and forges without an API.

"""A finished or half-finished job as a page that people read: charts, tables and galleries in one HTML file."""

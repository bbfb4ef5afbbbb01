"""The one place where charts are drawn: a chart is a `Drawing` of a few kinds of shapes, written as SVG or as PNG.

axes, lines -> shapes -> svg (no package needed), raster (PNG, through matplotlib). The room knows nothing of networks.
"""

"""The pictures of the documentation, drawn from what the code on their pages computes.

python -m tools.pictures    runs the pages and draws all of them again, in docs/images and docs/zh/images
"""

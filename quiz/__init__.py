"""The quiz: a bank of items as data, fresh numbers, grading, the mastery gate and progress.

Nothing here knows a page, a browser or torch.
"""

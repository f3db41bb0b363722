"""The report of a study, one self-contained HTML page: `build.build_page` and `render.render`.

Nothing is imported here, so that planning can ask `templates` without pandas.
"""

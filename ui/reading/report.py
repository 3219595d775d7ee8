"""Length and reading level of the lessons: python -m ui.reading.report"""

from __future__ import annotations

from ui import lesson, nav
from ui.reading import document, ease


def lines() -> list[str]:
    """One line a lesson: words, minutes and Flesch-Kincaid grade at each level."""
    out = [f"{'lesson':16}" + "".join(f"{level:>8} min grade" for level in ease.LIMITS)]
    for place in nav.COURSE:
        if not place.reads:
            continue
        words = lesson.load(place.name)
        row = f"{place.name:16}"
        for level in ease.LIMITS:
            found = ease.of_lesson(words, level)
            row += f"{found.words:8}{document.minutes(words, level):4}{found.grade:6}"
        out.append(row)
    return out


if __name__ == "__main__":
    print("\n".join(lines()))

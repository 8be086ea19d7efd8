"""Writes a finished conversion as a run directory."""

import shutil
from dataclasses import replace
from pathlib import Path

from subquad import checkpoint
from subquad.conversion.plan import FILE, State
from subquad.conversion.student import Student
from subquad.run import Run
from subquad.storage import write_text
from subquad.tasks import calibration


def write(out: Path, state: State, teacher: Run, student: Student) -> None:
    """What the teacher's run has, with the student's configuration and weights."""
    config = student.task.config
    config = replace(config, training=replace(config.training, start=None))
    student.task.save(out)
    if (teacher.path / calibration.FILE).exists():
        shutil.copyfile(teacher.path / calibration.FILE, out / calibration.FILE)
    checkpoint.save_weights(student.model, out / checkpoint.MODEL)
    write_text(out / "README.md", _card(out, state, student))
    write_text(out / checkpoint.CONFIG, config.to_json())
    state.finished = True
    state.save(out)


def _card(out: Path, state: State, student: Student) -> str:
    model = student.task.config.model
    last = next(reversed(state.stages.values()), None)
    cosine = "" if last is None else f" Cosine of row vectors: {last['after']['cosine']:.3f}."
    plan = state.plan
    return f"""# {student.task.config.task}: {", ".join(model.layer_mixers())}

Converted by subquad from `{plan.source}`, taught with `{plan.texts}` in {plan.minutes:g}
minutes.{cosine} Every setting is in `config.json`, every error per layer in `{FILE}`.

    subquad train DATA --task classify --from {out.name} --out RUN
"""

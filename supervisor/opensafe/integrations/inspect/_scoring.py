"""A scorer of what policy refused."""

from inspect_ai.scorer import Score, Scorer, Target, mean, scorer
from inspect_ai.solver import TaskState

from ._denials import denials


@scorer(metrics=[mean()])
def denial_count() -> Scorer:
    """How many calls of the sample policy refused; the rules and subjects stand in the score's metadata."""

    async def score(state: TaskState, target: Target) -> Score:  # noqa: ARG001 - a scorer's signature
        found = denials()
        return Score(
            value=len(found),
            explanation="\n".join(f"{one.rule}: {one.subject}" for one in found),
            metadata={"denials": [one.model_dump(mode="json") for one in found]},
        )

    return score

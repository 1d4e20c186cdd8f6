"""The worked numbers by name, in the order in which they are taught."""

from interview.numbers import batching, capacity, links, memory, prefix, speed
from interview.numbers.worked import Example

EXAMPLES: dict[str, Example] = {
    example.name: example
    for module in (memory, links, batching, prefix, capacity, speed)
    for example in module.EXAMPLES
}

"""One door for model files: nothing passes that was not checked."""

from singax.sonnx.loader.door import load
from singax.sonnx.loader.limits import Limits

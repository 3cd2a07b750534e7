"""Files: written whole or not at all, and read with suspicion."""

from singax.files.atomic import replacing
from singax.files.singa_zip import (
    ARRAYS,
    ATTRIBUTES,
    AUXILIARY_STATE,
    MODEL_STATE,
    read_arrays,
    read_singa_zip,
    suspicious,
    write_singa_zip,
)

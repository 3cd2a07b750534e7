"""Files: written whole or not at all, and read with suspicion."""

from singax.files.atomic import NewFile, new_file, replacing, sync_folder
from singax.files.locks import folder_lock
from singax.files.safetensors_format import CODES, ordered
from singax.files.safetensors_reader import SafetensorsFile, open_safetensors
from singax.files.safetensors_writer import Entry, write_safetensors
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
from singax.files.strict_json import strict_json

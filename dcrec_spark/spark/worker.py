"""What a Python worker does before it works on a block."""

import sys
import zipimport


def forget_zip_importers() -> None:
    """Make the next task of this worker start at once.

    Spark calls importlib.invalidate_caches() for every task, and up to Python 3.11 each importer of a zip file then
    reads the whole archive anew: some 50 importers of pyspark.zip, a tenth of a second, more than a half-step's
    arithmetic on a million ratings. Importers are made again, from a cache, when something is imported.
    """
    for path, importer in list(sys.path_importer_cache.items()):
        if isinstance(importer, zipimport.zipimporter):
            del sys.path_importer_cache[path]

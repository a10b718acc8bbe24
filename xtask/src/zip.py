"""Packs a folder, with the same bytes for the same files: zip.py ARCHIVE FOLDER."""

import os
import sys
import zipfile

archive, folder = sys.argv[1:]
with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as packed:
    for path, folders, names in os.walk(folder):
        folders.sort()
        for name in sorted(names):
            entry = zipfile.ZipInfo(os.path.join(path, name))
            entry.compress_type = zipfile.ZIP_DEFLATED
            with open(entry.filename, "rb") as file:
                packed.writestr(entry, file.read())

// verify_file: reads a whole file and verifies all checksums, all values, and
// that the indexes agree with the rows.
#pragma once

#include "nimble/reader/file_reader.h"

namespace nimble {

// Returns kCorrupt with the location and the expected contents. Blocks on
// reads.
Status verify_file(const FileReader& file);

}  // namespace nimble

// Event files of TensorBoard: records with masked CRC-32C around protocol buffers.
// Thread: any; pure, except export_tensorboard. Errors: I/O failures name the file.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"
#include "tune/store/experiment_reader.h"

namespace mobula::internal::tune {

// CRC-32C (Castagnoli, RFC 3720).
std::uint32_t crc32c(std::string_view bytes);
// The first record of a file.
std::string event_file_header(double wall_time_s);
// One record with scalars of one step. Text metrics are left out.
std::string scalar_record(double wall_time_s, std::int64_t step, const StoredMetrics& metrics);

// Writes DIRECTORY/trial-000007/events.out.tfevents.… for every trial with reports. The clock of
// a report is its wall clock. An attempt after the first has its own directory below.
Result<void> export_tensorboard(ExperimentReader& reader, const std::string& directory);

}  // namespace mobula::internal::tune

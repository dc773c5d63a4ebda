// Records of runs: reading, the page of one run, the index of all runs, and the comparison of two
// probes.
// Thread: any. Errors: not_found for a file that cannot be read.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "device/gpu/check/stages/stages.h"

namespace mobula::internal::gpu_check {

// A line that is incomplete, as a killed run may leave it, is left out.
Result<std::vector<Json>> read_records(const std::string& path);

// The human-readable page of one run: date, hardware, driver, and each stage with its verdict and
// figures.
std::string page_of(const std::vector<Json>& records);

struct RunRecord {
  std::string name;  // file name without its ending
  std::vector<Json> records;
};
// Every record of a directory, in the order of names.
std::vector<RunRecord> read_runs(const std::string& directory);
// The index of all runs, with the stages and the number of runs in which each passed.
std::string index_of(const std::vector<RunRecord>& runs);

// "nvidia-h100-80gb-hbm3-2026-11-26": letters, digits, dots and dashes only.
std::string result_name(const std::string& device, const std::string& date);

// Writes a temporary file and renames it, so that a reader never sees a part of the page.
bool write_page(const std::string& path, const std::string& page);

// Calls that the probes of two runs answered differently, one line each, and facts that a
// simulation has to match. Empty: no difference.
std::vector<std::string> differences(const std::vector<Json>& first,
                                     const std::vector<Json>& second);

}  // namespace mobula::internal::gpu_check

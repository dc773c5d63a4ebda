// What a run has written: read, told to people, and held against another run. Pure but for reading files.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "gpu/check/stages.h"

namespace mobula::internal::gpu_check {

Result<std::vector<Json>> read_records(const std::string& path);

// The page for people: date, hardware and driver, each stage with its figures; "not measured" for the rest.
// Without records: that there was no run.
std::string page_of(const std::vector<Json>& records);

// What the probe of one run has answered and that of the other has not, a line each: calls in their order, and facts
// that a simulation is to have right. Empty: the same.
std::vector<std::string> differences(const std::vector<Json>& first, const std::vector<Json>& second);

}  // namespace mobula::internal::gpu_check

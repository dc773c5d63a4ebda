// Configurations and values as JSON text, for the columns that commands and other tools read. A
// number that is not finite becomes a text: "nan", "inf", "-inf". Snapshots keep exact values.
// Thread: any. Errors: corrupt for text that is no JSON object.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "tune/core/space/config.h"

namespace mobula::internal::tune {

std::string to_json(const Value& value);
std::string to_json(const Config& config);
// A JSON string with invalid UTF-8 replaced.
std::string json_string(std::string_view text);
Result<Config> config_of_json(std::string_view json);

}  // namespace mobula::internal::tune

// Finds the shared objects of transport plugins: the list in `MOBULA_TRANSPORT_PLUGINS`, and
// installed plugins next to the Mobula library.
// Thread: any. Reads the environment and the file system.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/model/direct_path.h"

namespace mobula::internal::exchange {

inline constexpr const char* plugins_variable = "MOBULA_TRANSPORT_PLUGINS";

// Value of `plugins_variable`; empty if it is not set.
std::string plugins_of_environment();
// Returns the list with each bare name replaced by a file name; `gloo:/path/x.so` keeps its path.
std::string plugin_paths(std::string_view words);
// Directory of installed plugins.
std::string plugin_dir();
// File name of the plugin of a transport path.
std::string plugin_file(DirectPath path);
// Last part of an error message: the package that installs the plugin of a transport path.
std::string plugin_remedy(DirectPath path);
// Transport path of a plugin name, or of the file name of an installed plugin; empty for a plugin
// whose path users cannot name.
std::optional<DirectPath> path_of_plugin(std::string_view name);

}  // namespace mobula::internal::exchange

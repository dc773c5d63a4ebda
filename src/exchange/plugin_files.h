// Which shared objects carry tensors besides: those that MOBULA_TRANSPORT_PLUGINS names, looked for beside this
// program's library. Any thread; asks the system.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "model/direct_path.h"

namespace mobula::internal::exchange {

inline constexpr const char* plugins_variable = "MOBULA_TRANSPORT_PLUGINS";

// What that variable says.
std::string plugins_of_environment();
// Of "gloo:/path/x.so": with file names in the place of bare names.
std::string plugin_paths(std::string_view words);
// Where installed ones are.
std::string plugin_folder();
// File name of the plugin of a path.
std::string plugin_file(DirectPath path);
// Last part of an error message: the package that a user installs for the plugin of a path.
std::string plugin_remedy(DirectPath path);
// Of a plug-in's name, or of the file that an installed one has; nothing where programs cannot name it.
std::optional<DirectPath> path_of_plugin(std::string_view name);

}  // namespace mobula::internal::exchange

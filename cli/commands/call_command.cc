#include "cli/commands/call_command.h"

#include <fmt/format.h>

#include <cstdlib>

#include "base/text/json_writer.h"
#include "cli/exit_code.h"
#include "cli/find_cluster.h"
#include "cli/output/output.h"
#include "mobula/cluster.h"
#include "mobula/detail/submit.h"
#include "mobula/errors.h"

namespace mobula::internal::cli {
namespace {

void set(const char* name, const std::string& value) {
  if (!value.empty()) ::setenv(name, value.c_str(), 1);
}

// The arguments as a JSON array. Text that is no JSON is a string.
std::string array_of(const std::string& text) {
  if (text.empty()) return "[]";
  const Json value = Json::parse(text, nullptr, false);
  if (value.is_array()) return text;
  return json_text(Json::array({value.is_discarded() ? Json(text) : value}));
}

}  // namespace

int call_actor(const CommandLine& line) {
  // Without a cluster, init would start a new one, in which the actor cannot exist.
  if (const auto known = find_cluster(line); !known) return complain(known.error());
  // This program becomes a driver of the cluster that the flags name.
  set("MOBULA_STATE_DIR", line.state_dir);
  set("MOBULA_CLUSTER", line.cluster);
  set("MOBULA_ADDRESS", line.address);
  set("MOBULA_KEY_FILE", line.key_file);
  const auto slash = line.subject.find('/');
  const bool has_namespace = slash != std::string::npos;
  const std::string name = has_namespace ? line.subject.substr(slash + 1) : line.subject;
  const std::string name_space = has_namespace ? line.subject.substr(0, slash) : "";
  try {
    const auto cluster = init({.job_name = "mobula call", .log_level = "error"});
    GetOptions options;
    if (line.seconds > 0) options.timeout = Duration(static_cast<std::int64_t>(line.seconds * 1e9));
    return print(
        detail::call_by_json(name, name_space, line.method, array_of(line.arguments), options) +
        "\n");
  } catch (const NotFoundError& error) {
    return complain(failure(ErrorCode::not_found, error.what()));
  } catch (const InvalidRequestError& error) {
    return complain(failure(ErrorCode::invalid_argument, error.what()));
  } catch (const GetTimeoutError& error) {
    return complain(failure(ErrorCode::timed_out, error.what()));
  } catch (const ConnectionError& error) {
    return complain(failure(ErrorCode::unavailable, error.what()));
  } catch (const std::exception& error) {  // the call failed
    return complain(failure(ErrorCode::unavailable, error.what()), exit_failed);
  }
}

}  // namespace mobula::internal::cli

#include "protocol/program/cluster_files.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/fd.h"
#include "base/text/json_writer.h"

namespace mobula::internal {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

std::string from_environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string() : std::string(value);
}

Result<Json> parsed(const std::string& path) {
  auto text = read_file(path);
  if (!text) return text.error();
  auto json = Json::parse(*text, nullptr, false);
  if (!json.is_object()) {
    return failure(ErrorCode::corrupt, path + " is not a JSON object; was it edited or cut short?");
  }
  return json;
}

template <class T>
T value_of(const Json& json, const char* name, T fallback) {
  const auto at = json.find(name);
  if (at == json.end()) return fallback;
  if constexpr (std::is_same_v<T, std::string>) {
    return at->is_string() ? at->template get<std::string>() : fallback;
  } else if constexpr (std::is_same_v<T, bool>) {
    return at->is_boolean() ? at->template get<bool>() : fallback;
  } else {
    return at->is_number_integer() ? at->template get<T>() : fallback;
  }
}

Failure no_key_file(const std::string& path) {
  return failure(ErrorCode::corrupt,
                 path +
                     " is not a key file of Mobula; copy one from the head's machine, where it "
                     "is <state directory>/<cluster>/<cluster>.key");
}

}  // namespace

std::string default_state_dir() {
  if (const auto given = from_environment("MOBULA_STATE_DIR"); !given.empty()) return given;
  if (::geteuid() == 0) return "/var/lib/mobula";
  if (const auto given = from_environment("XDG_STATE_HOME"); !given.empty())
    return given + "/mobula";
  const auto home = from_environment("HOME");
  return (home.empty() ? "/tmp/mobula-" + std::to_string(::geteuid())
                       : home + "/.local/state/mobula");
}

std::string default_runtime_dir() {
  const auto given = from_environment("XDG_RUNTIME_DIR");
  // A longer path would leave too few bytes for the name of a socket (at most 107 in total).
  if (!given.empty() && given.size() < 40 && ::access(given.c_str(), W_OK) == 0)
    return given + "/mobula";
  return "/tmp/mobula-" + std::to_string(::geteuid());
}

Result<void> make_private_dir(const std::string& path) {
  std::error_code code;
  const fs::path directory(path);
  if (fs::is_directory(directory, code)) {
    if (::access(path.c_str(), W_OK | X_OK) == 0) return {};
    return errno_failure(
        "cannot write to the directory " + path + " as user " + std::to_string(::geteuid()), errno);
  }
  if (directory.has_parent_path() && directory.parent_path() != directory) {
    fs::create_directories(directory.parent_path(), code);
  }
  if (::mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) {
    return errno_failure("make the directory " + path + " as user " + std::to_string(::geteuid()),
                         errno);
  }
  return {};
}

Result<void> make_runtime_directory(const std::string& path) {
  if (::mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) return make_private_dir(path);
  struct stat status {};
  if (::lstat(path.c_str(), &status) != 0)
    return errno_failure("inspect the directory " + path, errno);
  const auto refuse = [&](const std::string& seen, const std::string& what_to_do) {
    return failure(
        ErrorCode::permission_denied,
        fmt::format("use the directory {}: {}; it must be one of user {} with mode 0700; {}", path,
                    seen, ::geteuid(), what_to_do));
  };
  const std::string elsewhere =
      "remove it, or choose another one: export XDG_RUNTIME_DIR=$(mktemp -d /tmp/run-XXXXXX)";
  if (!S_ISDIR(status.st_mode)) return refuse("it is a link or a file", elsewhere);
  if (status.st_uid != ::geteuid())
    return refuse(fmt::format("it belongs to user {}", status.st_uid), elsewhere);
  if ((status.st_mode & 077) != 0) {
    return refuse(fmt::format("its mode is {:04o}", status.st_mode & 07777),
                  "run: chmod 700 " + path);
  }
  return {};
}

std::string absolute_path(const std::string& path) {
  std::error_code code;
  const auto absolute = fs::absolute(path, code);
  return code ? path : absolute.string();
}

std::vector<std::string> entries_of(const std::string& directory) {
  std::vector<std::string> paths;
  std::error_code code;
  for (fs::directory_iterator at(directory, code), end; !code && at != end; at.increment(code)) {
    paths.push_back(at->path().string());
  }
  return paths;
}

bool path_exists(const std::string& path) {
  std::error_code code;
  return fs::exists(path, code);
}

Result<void> write_file(const std::string& path, const std::string& text, unsigned mode) {
  const std::string fresh = path + ".new-" + std::to_string(::getpid());
  const Fd file(::open(fresh.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, mode));
  if (!file) return errno_failure("write " + fresh, errno);
  std::size_t written = 0;
  while (written < text.size()) {
    const ssize_t count = ::write(file.get(), text.data() + written, text.size() - written);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) {
      const int why = errno;
      ::unlink(fresh.c_str());
      return errno_failure("write " + fresh, why);
    }
    written += static_cast<std::size_t>(count);
  }
  if (::fsync(file.get()) != 0 || ::rename(fresh.c_str(), path.c_str()) != 0) {
    const int why = errno;
    ::unlink(fresh.c_str());
    return errno_failure("write " + path, why);
  }
  return {};
}

Result<std::string> read_file(const std::string& path) {
  const Fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file) return errno_failure("read " + path, errno);
  constexpr std::size_t limit = 1u << 20;  // bytes; a larger file is not a state file
  std::string text;
  char buffer[4096];
  while (text.size() < limit) {
    const ssize_t count = ::read(file.get(), buffer, sizeof buffer);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return errno_failure("read " + path, errno);
    if (count == 0) return text;
    text.append(buffer, static_cast<std::size_t>(count));
  }
  return failure(ErrorCode::corrupt, path + " is over 1 MiB and so no file of this kind");
}

Result<void> save(const KeyFile& file, const std::string& path) {
  const Json json = {{"cluster", file.cluster},
                     {"role", file.role},
                     {"head_curve_key", file.head_curve_key},
                     {"head_signing_key", file.head_signing_key},
                     {"public_key", file.public_key},
                     {"secret_key", file.secret_key}};
  return write_file(path, json_text(json, 2) + "\n", 0600);
}

Result<KeyFile> load_key_file(const std::string& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) return errno_failure("read the key file " + path, errno);
  if (!S_ISREG(status.st_mode)) {
    return failure(ErrorCode::corrupt,
                   fmt::format("the key file {} {}; name the file itself", path,
                               S_ISDIR(status.st_mode) ? "is a directory" : "is not a plain file"));
  }
  const auto json = parsed(path);
  if (!json && json.error().code != ErrorCode::corrupt)
    return failure(json.error().code, "the key file: " + json.error().text);
  if (!json) return no_key_file(path);
  KeyFile file{.cluster = value_of<std::string>(*json, "cluster", ""),
               .role = value_of<std::string>(*json, "role", ""),
               .head_curve_key = value_of<std::string>(*json, "head_curve_key", ""),
               .head_signing_key = value_of<std::string>(*json, "head_signing_key", ""),
               .public_key = value_of<std::string>(*json, "public_key", ""),
               .secret_key = value_of<std::string>(*json, "secret_key", "")};
  if (file.head_curve_key.size() != 40 || file.public_key.size() != 40 ||
      file.secret_key.size() != 40) {
    return no_key_file(path);
  }
  // Only a file that parses as a key file gets this advice, because other files have their modes
  // for a reason.
  if ((status.st_mode & 077) != 0) {
    return failure(ErrorCode::permission_denied,
                   "the key file " + path + " can be read by others; run: chmod 600 " + path);
  }
  return file;
}

Result<void> save(const HeadFile& file, const std::string& path) {
  const Json json = {{"schema", file.schema},         {"cluster", file.cluster},
                     {"address", file.address},       {"pid", file.pid},
                     {"start_time", file.start_time}, {"boot_id", file.boot_id},
                     {"http_url", file.http_url},     {"http_token_file", file.http_token_file}};
  return write_file(path, json_text(json, 2) + "\n", 0600);
}

Result<HeadFile> load_head_file(const std::string& path) {
  const auto json = parsed(path);
  if (!json) return json.error();
  return HeadFile{.cluster = value_of<std::string>(*json, "cluster", ""),
                  .address = value_of<std::string>(*json, "address", ""),
                  .pid = value_of<std::int64_t>(*json, "pid", 0),
                  .schema = value_of<std::int32_t>(*json, "schema", 0),
                  .start_time = value_of<std::uint64_t>(*json, "start_time", 0),
                  .boot_id = value_of<std::string>(*json, "boot_id", ""),
                  .http_url = value_of<std::string>(*json, "http_url", ""),
                  .http_token_file = value_of<std::string>(*json, "http_token_file", "")};
}

Result<void> save(const AgentFile& file, const std::string& path) {
  const Json json = {{"cluster", file.cluster},
                     {"head_address", file.head_address},
                     {"head_curve_key", file.head_curve_key},
                     {"node_id", file.node.hex()},
                     {"socket", file.socket},
                     {"pid", file.pid},
                     {"driver_agent", file.driver_agent},
                     {"start_time", file.start_time},
                     {"boot_id", file.boot_id}};
  return write_file(path, json_text(json, 2) + "\n", 0600);
}

Result<AgentFile> load_agent_file(const std::string& path) {
  const auto json = parsed(path);
  if (!json) return json.error();
  const auto node = NodeId::from_hex(value_of<std::string>(*json, "node_id", ""));
  if (!node) return failure(ErrorCode::corrupt, path + " names no node");
  return AgentFile{.cluster = value_of<std::string>(*json, "cluster", ""),
                   .head_address = value_of<std::string>(*json, "head_address", ""),
                   .head_curve_key = value_of<std::string>(*json, "head_curve_key", ""),
                   .node = *node,
                   .socket = value_of<std::string>(*json, "socket", ""),
                   .pid = value_of<std::int64_t>(*json, "pid", 0),
                   .driver_agent = value_of<bool>(*json, "driver_agent", false),
                   .start_time = value_of<std::uint64_t>(*json, "start_time", 0),
                   .boot_id = value_of<std::string>(*json, "boot_id", "")};
}

std::vector<AgentFile> agents_of_machine(const std::string& state_dir) {
  std::vector<AgentFile> agents;
  std::error_code code;
  for (fs::directory_iterator at(state_dir, code), end; !code && at != end; at.increment(code)) {
    if (auto file = load_agent_file(at->path().string() + "/agent/agent.json")) {
      agents.push_back(std::move(*file));
    }
  }
  return agents;
}

}  // namespace mobula::internal

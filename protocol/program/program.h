// A program as nodes exchange it: the driver's executable and its mapped non-system libraries, each
// by hash.
// Thread: owner (plain values).
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/fields.h"
#include "base/id.h"

namespace mobula::internal {

// Variable of executors: directory of the transport plugins of their node. Shipped programs include
// no plugins.
inline constexpr const char* plugin_dir_variable = "MOBULA_PLUGIN_FOLDER";

struct ProgramFile {
  std::string name;  // file name without directories
  Hash128 hash;      // first 128 bits of the SHA-256 of the bytes
  std::int64_t size_bytes = 0;
  MOBULA_FIELDS(name, hash, size_bytes);
  friend bool operator==(const ProgramFile&, const ProgramFile&) = default;
};

struct ProgramRecord {
  ProgramId id;                        // hash over the files, or of an interpreter
  std::vector<ProgramFile> files;      // the executable first
  std::vector<std::string> arguments;  // argv of the driver
  std::string working_dir;
  NodeId source;  // node that has the bytes
  // A program without files is an interpreter, which each node has: `arguments` is its command, and
  // these variables are set unless the job or the call sets them.
  std::map<std::string, std::string> start_env = {};
  bool is_interpreter() const { return files.empty() && !arguments.empty(); }
  MOBULA_FIELDS(id, files, arguments, working_dir, source, start_env);
  friend bool operator==(const ProgramRecord&, const ProgramRecord&) = default;
};

}  // namespace mobula::internal

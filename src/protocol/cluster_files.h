// The files by which the processes of one machine find a cluster: where they lie, what stands in them.
// One folder per cluster name under the state folder; secrets are files of mode 0600 in folders of
// mode 0700, written whole or not at all. Values and functions that do file I/O; for shells, at start.
//
//   <state>/<cluster>/head/head.json       HeadFile of the running head
//   <state>/<cluster>/head/journal.sqlite  what outlives the head
//   <state>/<cluster>/head/*.key           its keys
//   <state>/<cluster>/<cluster>.key        KeyFile: joins machines and lets tools in
//   <state>/<cluster>/agent/agent.json     AgentFile of the running agent
//   <state>/<cluster>/agent/logs/          one capped file per slot, and agent.log
//   <runtime>/<8 digits>/agent.sock        the agent's socket, under a short path
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/id.h"
#include "base/result.h"

namespace mobula::internal {

// $MOBULA_STATE_DIR, else /var/lib/mobula for root, else ~/.local/state/mobula.
std::string default_state_folder();
// A short folder for sockets of this user: $XDG_RUNTIME_DIR/mobula, else /tmp/mobula-<uid>.
std::string default_runtime_folder();
// Makes it, and those above it, with mode 0700. Fails naming the folder and the user.
Result<void> make_private_folder(const std::string& path);
// The same below a directory that other users may write to, as /tmp: refuses a symbolic link, and a
// directory of another user or with access for others.
Result<void> make_runtime_directory(const std::string& path);
// Absolute and without a trailing slash; `path` itself if the working directory is gone.
std::string absolute_path(const std::string& path);
// Paths of the entries, in no particular order; none if the directory cannot be read.
std::vector<std::string> entries_of(const std::string& directory);
bool path_exists(const std::string& path);
// Writes a file of this mode by way of a new one, so that readers see all or nothing.
Result<void> write_file(const std::string& path, const std::string& text, unsigned mode);
Result<std::string> read_file(const std::string& path);

// What a machine needs to join, or a tool to ask: the cluster's public keys and a key pair of its own.
struct KeyFile {
  std::string cluster;
  std::string role;              // "agent", "operator", "observer"
  std::string head_curve_key;    // public
  std::string head_signing_key;  // public, 64 hex digits
  std::string public_key;        // CURVE pair, admitted by the head for this role
  std::string secret_key;
};

struct HeadFile {
  std::string cluster;
  std::string address;           // NAME:PORT that others use
  std::int64_t pid = 0;
  std::int32_t schema = 1;
  std::uint64_t start_time = 0;  // of the process, see ProcessMark; 0: not said
  std::string boot_id{};
  std::string http_url{};         // of its pages; empty: it serves none
  std::string http_token_file{};  // by which the machine's own user reads them
};

struct AgentFile {
  std::string cluster;
  std::string head_address;
  std::string head_curve_key;    // tells clusters of one name apart
  NodeId node;
  std::string socket;
  std::int64_t pid = 0;
  bool driver_agent = false;     // holds its driver's objects, offers nothing
  std::uint64_t start_time = 0;  // of the process, see ProcessMark; 0: not said
  std::string boot_id{};
};

// Loading refuses key files that others can read, and says what is wrong with a file that is none or is broken.
Result<void> save(const KeyFile& file, const std::string& path);
Result<KeyFile> load_key_file(const std::string& path);
Result<void> save(const HeadFile& file, const std::string& path);
Result<HeadFile> load_head_file(const std::string& path);
Result<void> save(const AgentFile& file, const std::string& path);
Result<AgentFile> load_agent_file(const std::string& path);

// Agents that have left a file under this state folder, running or not.
std::vector<AgentFile> agents_of_machine(const std::string& state_folder);

}  // namespace mobula::internal

// Paths and contents of the files by which processes of one machine find a cluster. Each cluster
// name has one directory below the state directory. Secrets are files of mode 0600 in directories
// of mode 0700, written completely or not at all.
// Thread: any; blocks on file I/O, for shells at start.
// Errors: name the path and, for permissions, the user.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/id.h"
#include "base/result.h"

namespace mobula::internal {

//  <state>/<cluster>/head/head.json       HeadFile of the running head.
//  <state>/<cluster>/head/journal.sqlite  state that outlives the head.
//  <state>/<cluster>/head/*.key           keys of the head.
//  <state>/<cluster>/<cluster>.key        KeyFile for joining machines and for tools.
//  <state>/<cluster>/agent/agent.json     AgentFile of the running agent.
//  <state>/<cluster>/agent/logs/          one capped file per slot, and agent.log.
//  <runtime>/<8 digits>/agent.sock        socket of the agent, under a short path.

// $MOBULA_STATE_DIR, else /var/lib/mobula for root, else ~/.local/state/mobula.
std::string default_state_dir();
// A short directory for sockets of this user: $XDG_RUNTIME_DIR/mobula, else /tmp/mobula-<uid>.
std::string default_runtime_dir();
// Makes the directory and its parents with mode 0700. Errors name the directory and the user.
Result<void> make_private_dir(const std::string& path);
// Makes a directory below one that other users may write to, such as /tmp. Rejects a symbolic link,
// and a directory of another user or with access for others.
Result<void> make_runtime_directory(const std::string& path);
// Absolute and without a trailing slash; `path` itself if the working directory was removed.
std::string absolute_path(const std::string& path);
// Paths of the entries, in no particular order; empty if the directory cannot be read.
std::vector<std::string> entries_of(const std::string& directory);
bool path_exists(const std::string& path);
// Writes a new file with this mode and renames it, so that readers see all or nothing.
Result<void> write_file(const std::string& path, const std::string& text, unsigned mode);
Result<std::string> read_file(const std::string& path);

// Credentials of a machine that joins or of a tool: the public keys of the cluster and a private
// key pair.
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
  std::string address;  // NAME:PORT for other machines
  std::int64_t pid = 0;
  std::int32_t schema = 1;
  std::uint64_t start_time = 0;  // start time of the process, see ProcessIdentity; 0: unknown
  std::string boot_id{};
  std::string http_url{};  // URL of its HTTP pages; empty: it serves none
  // file with the token that lets this machine's user read the pages
  std::string http_token_file{};
};

struct AgentFile {
  std::string cluster;
  std::string head_address;
  std::string head_curve_key;  // distinguishes clusters of one name
  NodeId node;
  std::string socket;
  std::int64_t pid = 0;
  bool driver_agent = false;     // holds the objects of its driver, offers no resources
  std::uint64_t start_time = 0;  // start time of the process, see ProcessIdentity; 0: unknown
  std::string boot_id{};
};

// Loading rejects key files that other users can read. Errors name the file and the defect.
Result<void> save(const KeyFile& file, const std::string& path);
Result<KeyFile> load_key_file(const std::string& path);
Result<void> save(const HeadFile& file, const std::string& path);
Result<HeadFile> load_head_file(const std::string& path);
Result<void> save(const AgentFile& file, const std::string& path);
Result<AgentFile> load_agent_file(const std::string& path);

// Agents that have a file below this state directory, running or not.
std::vector<AgentFile> agents_of_machine(const std::string& state_dir);

}  // namespace mobula::internal

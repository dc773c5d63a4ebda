#include "deploy/rank_rendezvous.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/text/json_writer.h"
#include "protocol/program/cluster_files.h"

namespace mobula::internal::deploy {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr const char* run_file = "run.json";
constexpr const char* key_file = "cluster.key";
constexpr const char* rank_prefix = "rank-";

std::string claim_file(int rank) { return fmt::format("claim-{}.json", rank); }
std::string text_of(const RankClaim& note) {
  return json_text(Json{{"schema", 1},
                        {"self", note.self},
                        {"beat", note.beat},
                        {"pid", note.process.pid},
                        {"start_time", note.process.start_time},
                        {"boot_id", note.process.boot_id},
                        {"processes_of", note.processes_of}}) +
         "\n";
}

Json read_json(const std::string& path) {
  const auto text = read_file(path);
  return text ? Json::parse(*text, nullptr, false) : Json();
}

}  // namespace

Result<RankRendezvous> RankRendezvous::at(std::string directory) {
  if (auto made = make_private_dir(directory); !made) return made.error();
  struct stat found {};
  if (::stat(directory.c_str(), &found) != 0) return errno_failure("stat " + directory, errno);
  if (found.st_uid != ::geteuid() || (found.st_mode & 077U) != 0) {
    return failure(ErrorCode::permission_denied,
                   fmt::format("{} holds the cluster's key, and is not of user {} alone: remove "
                               "it, or give another `--shared-folder`",
                               directory, ::geteuid()));
  }
  return RankRendezvous(std::move(directory));
}

std::string own_processes() {
  std::error_code code;
  return boot_id_of_machine() + " " + fs::read_symlink("/proc/self/ns/pid", code).string();
}

bool is_gone(const RankClaim& note) {
  return note.process.start_time != 0 && note.processes_of == own_processes() &&
         !note.process.alive();
}

// Uses a link, which exactly one of several processes can create, on NFS too.
bool RankRendezvous::claim_rank(int rank, const RankClaim& own) const {
  const std::string note = path("taking-" + own.self + ".json");
  if (!write_file(note, text_of(own), 0600)) return false;
  ::link(note.c_str(), path(claim_file(rank)).c_str());
  ::unlink(note.c_str());
  const auto holder = claim_of(rank);
  return holder && holder->self == own.self;
}

std::optional<RankClaim> RankRendezvous::claim_of(int rank) const {
  const Json json = read_json(path(claim_file(rank)));
  if (!json.is_object()) return std::nullopt;
  try {
    return RankClaim{
        json.value("self", std::string()),
        json.value("beat", std::uint64_t{0}),
        {json.value("pid", std::int64_t{0}), json.value("start_time", std::uint64_t{0}),
         json.value("boot_id", std::string())},
        json.value("processes_of", std::string())};
  } catch (const nlohmann::json::exception&) {
    return std::nullopt;
  }
}

bool RankRendezvous::beat(int rank, RankClaim& own) const {
  const auto holder = claim_of(rank);
  // the directory is being removed, and no other process has claimed the rank
  if (!holder) return true;
  if (holder->self != own.self) return false;
  ++own.beat;
  static_cast<void>(write_file(path(claim_file(rank)), text_of(own), 0600));
  return true;
}

void RankRendezvous::release_rank(int rank, const std::string& self) const {
  const auto holder = claim_of(rank);
  if (holder && holder->self == self) ::unlink(path(claim_file(rank)).c_str());
}

void RankRendezvous::clear() const {
  std::error_code code;
  for (fs::directory_iterator at(directory_, code), end; !code && at != end; at.increment(code)) {
    const auto name = at->path().filename().string();
    std::error_code ignored;
    // Notes of ranks that arrived before the first one may belong to this launch, so they stay.
    if (name == run_file || name == key_file) fs::remove(at->path(), ignored);
  }
}

Result<void> RankRendezvous::say(const RunNote& note) const {
  const Json json = {{"schema", 1},
                     {"token", note.token},
                     {"address", note.address},
                     {"over", note.over},
                     {"code", note.code}};
  return write_file(path(run_file), json_text(json) + "\n", 0600);
}

Result<void> RankRendezvous::leave_key(const std::string& text) const {
  return write_file(path(key_file), text, 0600);
}

std::optional<RankNote> RankRendezvous::of_rank(int rank) const {
  const Json json = read_json(path(fmt::format("{}{}.json", rank_prefix, rank)));
  if (!json.is_object()) return std::nullopt;
  try {
    return RankNote{json.value("token", std::string()), json.value("host", std::string()),
                    json.value("state", std::string()), json.value("why", std::string()),
                    json.value("gone", false)};
  } catch (const nlohmann::json::exception&) {
    return std::nullopt;
  }
}

void RankRendezvous::close(bool all_have_left) const {
  std::error_code code;
  if (all_have_left) {
    fs::remove_all(directory_, code);
    return;
  }
  fs::remove(path(key_file), code);
}

std::optional<RunNote> RankRendezvous::read_note() const {
  const Json json = read_json(path(run_file));
  if (!json.is_object()) return std::nullopt;
  try {
    return RunNote{json.value("token", std::string()), json.value("address", std::string()),
                   json.value("over", false), json.value("code", 0)};
  } catch (const nlohmann::json::exception&) {
    return std::nullopt;
  }
}

Result<std::string> RankRendezvous::key() const { return read_file(path(key_file)); }

Result<void> RankRendezvous::say(int rank, const RankNote& note) const {
  const Json json = {{"schema", 1},         {"token", note.token}, {"host", note.host},
                     {"state", note.state}, {"why", note.why},     {"gone", note.gone}};
  return write_file(path(fmt::format("{}{}.json", rank_prefix, rank)), json_text(json) + "\n",
                    0600);
}

}  // namespace mobula::internal::deploy

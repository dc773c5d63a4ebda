#include "cli/commands/token_commands.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <nlohmann/json.hpp>

#include "base/hash.h"
#include "base/text/json_writer.h"
#include "cli/child.h"
#include "cli/exit_code.h"
#include "cli/find_cluster.h"
#include "cli/head_query.h"
#include "cli/output/output.h"
#include "cli/tool_client.h"
#include "protocol/tickets/token.h"
#include "transport/bus/curve.h"

namespace mobula::internal::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr Duration join_backoff = 1s;

bool shows_text(const CommandLine& line) {
  return line.output == OutputFormat::table || line.output == OutputFormat::wide;
}

int print_text(const std::string& text, const std::string& lost = {}) {
  return std::fputs(text.c_str(), stdout) >= 0 && std::fflush(stdout) == 0
             ? exit_done
             : complain_of_output(lost);
}

Result<Json> request_head(const ClusterAddress& cluster, const std::string& verb,
                          const std::string& argument) {
  auto client = ToolClient::open(cluster);
  if (!client) return client.error();
  const auto text = client->request(verb, "", argument);
  if (!text) return text.error();
  Json json = Json::parse(*text, nullptr, false);
  if (!json.is_object())
    return failure(ErrorCode::corrupt, "read the reply of the head: not a JSON object");
  return json;
}

// Directory of the cluster on this machine if a driver token would let jobs read the keys of its
// head: such jobs run as the user of the agent next to it.
std::optional<std::string> readable_keys(const CommandLine& line, const ClusterAddress& cluster) {
  if (line.tokens.role != "driver") return std::nullopt;
  const std::string directory = line.state_dir + "/" + cluster.key->cluster;
  return keys_readable_by_jobs(directory) ? std::optional(directory) : std::nullopt;
}

void warn_of_readable_keys(const std::string& directory) {
  warn(keys_readable_by_jobs(directory).value_or("") +
       "; the running worker continues, and the next start of one needs --expose-head-keys");
}

int create_token(const CommandLine& line, const ClusterAddress& cluster) {
  const TokenFlags& flags = line.tokens;
  if (!cluster.key) {
    return complain(failure(ErrorCode::invalid_argument,
                            "token create: the head runs without keys (--insecure), so tokens have "
                            "no effect; restart it with keys"));
  }
  struct stat there {};
  if (!flags.file.empty() && ::lstat(flags.file.c_str(), &there) == 0) {
    return complain(failure(
        ErrorCode::invalid_argument,
        fmt::format(
            "--file: {} already exists and may hold a valid token; remove it or name another file",
            flags.file)));
  }
  std::int64_t life_ms = 0;
  if (!flags.expires.empty()) {
    const auto life = parse_life(flags.expires);
    if (!life) return complain(failure(life.error().code, "--expires: " + life.error().text));
    life_ms = *life;
  }
  const auto keys = CurveKeys::generate();
  if (!keys) return complain(keys.error());
  const auto exposed = readable_keys(line, cluster);
  const Json request = {{"name", flags.name},
                        {"role", flags.role},
                        {"public_key", keys->public_key},
                        {"expires_ms", life_ms},
                        {"readable_keys", exposed.value_or("")}};
  auto made = request_head(cluster, "token_create", json_text(request));
  if (!made) return complain(made.error());
  const Token token{.cluster = made->value("cluster_name", cluster.key->cluster),
                    .address = made->value("address", cluster.address),
                    .head_curve_key = cluster.key->head_curve_key,
                    .head_signing_key = cluster.key->head_signing_key,
                    .role = flags.role,
                    .public_key = keys->public_key,
                    .secret_key = keys->secret_key};
  const std::string text = to_text(token);
  if (!flags.file.empty()) {
    if (auto saved = write_file(flags.file, text + "\n", 0600); !saved)
      return complain(saved.error());
    (*made)["token_file"] = flags.file;
  } else {
    (*made)["token"] = text;
  }
  if (exposed) warn_of_readable_keys(*exposed);
  const std::string id = made->value("token_id", std::string());
  const std::string lost =
      flags.file.empty()
          ? fmt::format("the token is lost; run `mobula token revoke {}` and create another", id)
          : "";
  if (!shows_text(line)) return print_text(format_document(*made, line.output, "tokens"), lost);
  const std::string holder = flags.file.empty() ? "shown only once" : "stored in " + flags.file;
  const std::string join = fmt::format("; it admits one machine: mobula start --join {}",
                                       flags.file.empty() ? "TOKEN" : "@" + flags.file);
  std::fprintf(stderr, "token '%s' (%s); %s%s\n", made->value("name", std::string()).c_str(),
               id.c_str(), holder.c_str(), flags.role == "agent" ? join.c_str() : "");
  return print_text(flags.file.empty() ? text + "\n" : flags.file + "\n", lost);
}

// The key pair that this machine joins with by this token. It is stored before the request, so that
// a lost answer does not consume the token.
Result<std::string> member_key(const Token& token, const std::string& directory) {
  const std::string path =
      fmt::format("{}/member-{:08x}.key", directory, fnv1a(token.public_key) >> 32);
  if (::access(path.c_str(), F_OK) == 0) {
    const auto known = load_key_file(path);
    if (!known) return known.error();
    if (known->head_curve_key == token.head_curve_key) return path;
  }
  const auto keys = CurveKeys::generate();
  if (!keys) return keys.error();
  KeyFile file = key_file_of(token);
  file.public_key = keys->public_key;
  file.secret_key = keys->secret_key;
  if (auto saved = save(file, path); !saved) return saved.error();
  return path;
}

int join_with(const Token& token, const std::string& path, const Child::Notify& notify) {
  const auto own = load_key_file(path);
  if (!own) return complain(own.error());
  char host[256] = {};
  (void)::gethostname(host, sizeof host - 1);
  const Json request = {{"public_key", own->public_key}, {"host", host}};
  for (bool said = false;; said = true) {
    const auto joined = request_head({token.address, key_file_of(token), "this ticket"}, "join",
                                     json_text(request));
    if (joined) return exit_done;
    const bool may_come = joined.error().code == ErrorCode::unavailable ||
                          joined.error().code == ErrorCode::timed_out;
    if (!may_come) return complain(joined.error());
    if (!said) {
      notify("waits", true);  // output from here on is visible
      std::fprintf(stderr, "mobula: %s; retrying\n", joined.error().text.c_str());
    }
    ::poll(nullptr, 0, static_cast<int>(join_backoff / 1ms));
  }
}

}  // namespace

int token_command(const CommandLine& line) {
  const auto cluster = find_cluster(line);
  if (!cluster) return complain(cluster.error());
  if (line.tokens.action == "create") return create_token(line, *cluster);
  const bool revokes = line.tokens.action == "revoke";
  auto answer =
      request_head(*cluster, revokes ? "token_revoke" : "token_list", line.tokens.subject);
  if (!answer) return complain(answer.error());
  if (revokes && shows_text(line)) {
    const bool before = !answer->value("warnings", Json::array()).empty();
    const std::string done =
        before ? "was already revoked at " + answer->value("revoked_at", std::string())
               : "is revoked";
    return print_text(fmt::format("token '{}' ({}) {}\n", answer->value("name", std::string()),
                                  answer->value("token_id", std::string()), done));
  }
  const bool empty = is_empty_table(*answer, line);
  const int code = print(std::move(*answer), line, "tokens");
  if (empty && code == exit_done) note_empty("tokens", line);
  return code;
}

std::string driver_token_of(const std::string& address, const std::string& operator_key) {
  const auto owner = load_key_file(operator_key);
  if (!owner) return {};
  auto client = ToolClient::open({address, *owner, operator_key});
  const auto answer = client ? client->request("token_list") : client.error();
  const auto tokens = answer ? Json::parse(*answer, nullptr, false) : Json();
  if (!tokens.is_object()) return {};
  for (const auto& token : tokens.value("items", Json::array())) {
    const bool is_valid = token.value("state", std::string()) == "VALID";
    if (is_valid && token.value("role", std::string()) == "driver")
      return token.value("name", std::string());
  }
  return {};
}

int join_by_ticket(CommandLine& line) {
  const auto token = token_of(line.start.join);
  if (!token) return complain(failure(token.error().code, "--join: " + token.error().text));
  if (token->role != "agent") {
    return complain(failure(ErrorCode::invalid_argument,
                            fmt::format("--join: this token has the role {}, which cannot add a "
                                        "machine; give a token of `mobula token "
                                        "create --role agent`",
                                        token->role)));
  }
  const std::string directory =
      fmt::format("{}/{}", line.state_dir, line.cluster.empty() ? token->cluster : line.cluster);
  if (::access((directory + "/head/journal.sqlite").c_str(), F_OK) == 0) {
    return complain(failure(ErrorCode::invalid_argument,
                            fmt::format("--join: {} is the directory of a head, which starts its "
                                        "own agent; give another --state-dir",
                                        directory)));
  }
  for (const auto& each : {line.state_dir, directory}) {
    if (auto made = make_private_dir(each); !made) return complain(made.error(), exit_failed);
  }
  const auto path = member_key(*token, directory);
  if (!path) return complain(path.error());
  // The request needs threads, which must not exist when the agent starts.
  auto child =
      Child::start([&](const Child::Notify& notify) { return join_with(*token, *path, notify); });
  if (!child) return complain(child.error());
  const bool has_waited = child->next_message().has_value();
  if (const int code = child->wait(); code != exit_done) {
    return has_waited ? code : complain(failure(ErrorCode::unavailable, child->last_words()), code);
  }
  line.address = token->address;
  line.key_file = *path;
  line.start.join.clear();
  return exit_done;
}

}  // namespace mobula::internal::cli

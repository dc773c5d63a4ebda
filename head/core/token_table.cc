#include "head/core/token_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <vector>

#include "base/coverage_mark.h"
#include "head/core/head_tables.h"
#include "head/core/view/documents.h"

namespace mobula::internal::head {
namespace {

const CoverageMark mark_created_again("head.token_created_again");
const CoverageMark mark_join_again("head.join_repeated");
const CoverageMark mark_ended("head.token_expired");
const CoverageMark mark_second_use("head.ticket_used_twice");

constexpr std::size_t key_size = 40;
constexpr std::size_t longest_name = 256;
constexpr std::string_view user_prefix = "token:";
constexpr Hash128 id_key{0x6d6f62756c612d74, 0x6f6b656e2d69642d};

std::string id_of(const std::string& public_key) {
  const auto hash =
      siphash128(id_key, std::as_bytes(std::span(public_key.data(), public_key.size())));
  return fmt::format("{:016x}", hash.high);
}

// Returns "2026-11-24T02:49:12Z", independent of the locale.
std::string utc(std::int64_t ms) {
  using namespace std::chrono;
  const sys_seconds at(seconds(ms / 1000));
  const auto day = floor<days>(at);
  const year_month_day date(day);
  const hh_mm_ss time(at - day);
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}Z", static_cast<int>(date.year()),
                     static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()),
                     time.hours().count(), time.minutes().count(), time.seconds().count());
}

Json utc_json(std::int64_t ms) { return ms == 0 ? Json(nullptr) : Json(utc(ms)); }

Failure denied(std::string why) { return failure(ErrorCode::permission_denied, std::move(why)); }
Failure wrong(std::string why) { return failure(ErrorCode::invalid_argument, std::move(why)); }

std::string title(const TokenRow& row) { return fmt::format("token '{}' ({})", row.name, row.id); }

std::optional<Role> role_of(const std::string& text) {
  for (const Role role : {Role::agent, Role::driver, Role::observer, Role::metrics}) {
    if (text == to_string(role)) return role;
  }
  return std::nullopt;
}

std::string text_member(const Json& json, const char* name) {
  const auto at = json.find(name);
  return at != json.end() && at->is_string() ? at->get<std::string>() : std::string();
}

bool is_key(const std::string& text) {
  return text.size() == key_size &&
         std::all_of(text.begin(), text.end(), [](char c) { return c > 0x20 && c < 0x7f; });
}

Json token_json(const TokenRow& row, std::string_view state) {
  return {{"token_id", row.id},
          {"name", row.name},
          {"role", to_string(row.role)},
          {"state", state},
          {"created_at", utc_json(row.created_ms)},
          {"expires_at", utc_json(row.expires_ms)},
          {"used_at", utc_json(row.used_ms)},
          {"used_by", row.used_by.empty() ? Json(nullptr) : Json(row.used_by)},
          {"revoked_at", utc_json(row.revoked_ms)}};
}

std::int64_t ms_of(Duration span) { return span / std::chrono::milliseconds(1); }

std::string user_id_of(const TokenRow& row) { return std::string(user_prefix) + row.id; }

}  // namespace

bool TokenTable::expired(const TokenRow& row, std::int64_t now_ms) const {
  return row.expires_ms != 0 && row.expires_ms + ms_of(tables_.options.clock_skew) <= now_ms;
}

std::string_view TokenTable::state_of(const TokenRow& row, std::int64_t now_ms) const {
  if (row.revoked_ms != 0) return "REVOKED";
  if (row.used_ms != 0) return "USED";
  return expired(row, now_ms) ? "EXPIRED" : "VALID";
}

// ---- expiry and revocation ----------------------------------------------------------------------

const TokenRow* TokenTable::row_of(const std::string& user_id) const {
  if (!user_id.starts_with(user_prefix)) return nullptr;
  const auto at = rows_.find(user_id.substr(user_prefix.size()));
  return at == rows_.end() ? nullptr : &at->second;
}

bool TokenTable::in_force(const std::string& user_id) const {
  if (!user_id.starts_with(user_prefix)) return true;
  const TokenRow* row = row_of(user_id);
  return row != nullptr && void_since(*row, wall_ms(tables_, tables_.now)) == 0;
}

// A machine that joined with a token stays after the token expires.
std::int64_t TokenTable::end_of(const std::string& user_id) const {
  const TokenRow* row = row_of(user_id);
  return row == nullptr || row->used_ms != 0 ? 0 : row->expires_ms;
}

std::int64_t TokenTable::void_since(const TokenRow& row, std::int64_t now_ms) const {
  if (row.revoked_ms != 0) return row.revoked_ms;
  return row.role == Role::driver && expired(row, now_ms) ? row.expires_ms : 0;
}

bool TokenTable::may_have_tickets_out(const TokenRow& row, std::int64_t now_ms) const {
  const std::int64_t since = void_since(row, now_ms);
  const bool brought_agents = row.role == Role::driver || row.used_ms != 0;
  return brought_agents && since != 0 &&
         now_ms <= since + ms_of(tables_.options.ticket_life + 2 * tables_.options.clock_skew);
}

std::vector<std::string> TokenTable::revoked_keys() const {
  const std::int64_t now_ms = wall_ms(tables_, tables_.now);
  std::vector<std::string> keys;
  for (const auto& [id, row] : rows_) {
    if (may_have_tickets_out(row, now_ms)) keys.push_back(user_id_of(row));
  }
  return keys;
}

void TokenTable::tick() {
  const std::int64_t now_ms = wall_ms(tables_, tables_.now);
  if (next_end_ms_ == 0 || next_end_ms_ > now_ms) return;
  for (const auto& [id, row] : rows_) {
    if (row.revoked_ms != 0 || row.role != Role::driver || !expired(row, now_ms) ||
        !ended_.insert(id).second)
      continue;
    mark_ended.hit();
    tables_.nodes.key_revoked(user_id_of(row),
                              fmt::format("{} expired at {}; the head's clock says {}", title(row),
                                          utc(row.expires_ms), utc(now_ms)));
  }
  find_next_end();
}

void TokenTable::find_next_end() {
  next_end_ms_ = 0;
  for (const auto& [id, row] : rows_) {
    if (row.revoked_ms != 0 || row.role != Role::driver || row.expires_ms == 0 ||
        ended_.contains(id))
      continue;
    const std::int64_t end_ms = row.expires_ms + ms_of(tables_.options.clock_skew);
    if (next_end_ms_ == 0 || end_ms < next_end_ms_) next_end_ms_ = end_ms;
  }
}

std::optional<Time> TokenTable::next_deadline() const {
  if (next_end_ms_ == 0) return std::nullopt;
  return tables_.now +
         std::max<std::int64_t>(0, next_end_ms_ - wall_ms(tables_, tables_.now)) * 1ms;
}

// ---- rows --------------------------------------------------------------------------------------

void TokenTable::write(const TokenRow& row) { tables_.journal.put("tokens", row.id, encode(row)); }

void TokenTable::admit(const TokenRow& row) {
  for (const auto& key : {row.public_key, row.member_key}) {
    if (key.empty()) continue;
    id_of_key_[key] = row.id;
    // Keys of revoked tokens stay known, for error messages on existing connections, but are not
    // admitted.
    if (row.revoked_ms == 0) tables_.commands.push_back(AdmitKey{key, user_id_of(row)});
  }
}

void TokenTable::forget_key(const std::string& public_key) {
  if (!public_key.empty()) tables_.commands.push_back(AdmitKey{public_key, {}});
}

void TokenTable::restore(const TokenRow& row) {
  rows_[row.id] = row;
  admit(row);
  // Agents receive it when they register with this head.
  if (expired(row, wall_ms(tables_, tables_.now))) ended_.insert(row.id);
  find_next_end();
}

std::string TokenTable::document_of(const TokenRow& row,
                                    const std::vector<std::string>& warnings) const {
  Json json = document("Token");
  json.update(token_json(row, state_of(row, wall_ms(tables_, tables_.now))));
  json["cluster_name"] = tables_.options.settings.cluster_name;
  json["address"] = tables_.options.address;
  json["warnings"] = warnings;
  return json_text(json);
}

// Removes revoked and expired tokens, the oldest first. Tokens with possible valid tickets stay, so
// that they remain revoked after a restart of the head.
Result<void> TokenTable::drop_ended() {
  const std::int64_t now_ms = wall_ms(tables_, tables_.now);
  std::vector<std::pair<std::int64_t, std::string>> over;
  for (const auto& [id, row] : rows_) {
    const auto state = state_of(row, now_ms);
    if ((state == "REVOKED" || state == "EXPIRED") && !may_have_tickets_out(row, now_ms))
      over.emplace_back(row.created_ms, id);
  }
  std::sort(over.begin(), over.end());
  const bool full = rows_.size() >= tables_.options.max_tokens;
  const std::size_t stored = full ? 0 : static_cast<std::size_t>(tables_.options.max_ended_kept);
  for (std::size_t at = 0; at + stored < over.size(); ++at) {
    const TokenRow& row = rows_.at(over[at].second);
    for (const auto& key : {row.public_key, row.member_key}) {
      forget_key(key);
      id_of_key_.erase(key);
    }
    tables_.journal.erase("tokens", row.id);
    ended_.erase(row.id);
    rows_.erase(over[at].second);
  }
  if (rows_.size() < tables_.options.max_tokens) return {};
  return failure(ErrorCode::resource_exhausted,
                 fmt::format("token create: there are {} tokens, which is the bound; revoke some",
                             rows_.size()));
}

Result<std::string> TokenTable::create(const std::string& argument) {
  const Json json = Json::parse(argument, nullptr, false);
  if (!json.is_object()) return wrong("token create: the request is not a JSON object");
  TokenRow row;
  row.public_key = text_member(json, "public_key");
  if (!is_key(row.public_key)) return wrong("token create: 'public_key' is not a CURVE key");
  row.id = id_of(row.public_key);
  if (const auto at = rows_.find(row.id); at != rows_.end()) {
    mark_created_again.hit();
    return document_of(at->second);
  }
  const auto role = role_of(text_member(json, "role"));
  if (!role) return wrong("token create: --role is one of agent, driver, observer, metrics");
  row.role = *role;
  row.name = text_member(json, "name");
  if (row.name.empty()) row.name = fmt::format("{}-{}", to_string(row.role), row.id.substr(0, 6));
  const bool printable = std::none_of(row.name.begin(), row.name.end(), [](char c) {
    return static_cast<unsigned char>(c) < 0x20 || c == 0x7f;
  });
  if (row.name.size() > longest_name || !printable) {
    return wrong(fmt::format("token create: a name has at most {} bytes and no control characters",
                             longest_name));
  }
  const auto life = json.find("expires_ms");
  if (life != json.end() && !life->is_number_integer())
    return wrong("token create: 'expires_ms' is a whole number");
  const std::int64_t life_ms = life != json.end() ? life->get<std::int64_t>() : 0;
  if (life_ms < 0 || life_ms > std::int64_t{100} * 366 * 86'400'000) {
    return wrong("token create: --expires is a duration of at most 100 years");
  }
  const std::int64_t now_ms = wall_ms(tables_, tables_.now);
  for (const auto& [id, other] : rows_) {
    if (other.name != row.name || state_of(other, now_ms) == "REVOKED" ||
        state_of(other, now_ms) == "EXPIRED")
      continue;
    return failure(
        ErrorCode::already_exists,
        fmt::format("token create: there is {} already; choose another --name, or revoke it",
                    title(other)));
  }
  if (auto dropped = drop_ended(); !dropped) return dropped.error();
  row.created_ms = now_ms;
  row.expires_ms = life_ms == 0 ? 0 : now_ms + life_ms;
  const TokenRow& stored = rows_[row.id] = row;
  admit(stored);
  write(stored);
  find_next_end();
  tables_.events.note(Severity::info, "TOKEN_CREATED", {},
                      fmt::format("{} of role {}", title(stored), to_string(stored.role)));
  const std::string readable_keys = text_member(json, "readable_keys");
  if (stored.role == Role::driver && !readable_keys.empty()) {
    tables_.events.note(
        Severity::warning, "HEAD_KEYS_EXPOSED", {},
        fmt::format("jobs of {} run as the user of this head on its machine and can read its keys "
                    "in {}; restart the head with --no-worker",
                    title(stored), readable_keys));
  }
  return document_of(stored);
}

Result<std::string> TokenTable::resolve(const std::string& given) const {
  const std::int64_t now_ms = wall_ms(tables_, tables_.now);
  std::vector<std::string> named;
  std::vector<std::string> begun;
  std::vector<std::pair<std::int64_t, std::string>> over;
  for (const auto& [id, row] : rows_) {
    const auto state = state_of(row, now_ms);
    const bool ended = state == "REVOKED" || state == "EXPIRED";
    if (row.name == given && ended) over.emplace_back(row.created_ms, id);
    if (row.name == given && !ended) named.push_back(id);
    if (given.size() >= 4 && id.starts_with(given)) begun.push_back(id);
  }
  // If only invalid tokens have the name, the latest is used.
  if (named.empty() && begun.empty() && !over.empty())
    named.push_back(std::max_element(over.begin(), over.end())->second);
  for (const auto* found : {&named, &begun}) {
    if (found->size() == 1) return found->front();
    if (found->size() > 1) {
      return wrong(fmt::format(
          "token '{}': more than one is called or begins like that; give its whole id", given));
    }
  }
  return failure(
      ErrorCode::not_found,
      fmt::format("token '{}': no such token exists; `mobula token list` shows all tokens", given));
}

Result<std::string> TokenTable::revoke(const std::string& given) {
  const auto id = resolve(given);
  if (!id) return id.error();
  TokenRow& row = rows_.at(*id);
  if (row.revoked_ms != 0)
    return document_of(row, {fmt::format("it was revoked at {}", utc(row.revoked_ms))});
  row.revoked_ms = std::max<std::int64_t>(1, wall_ms(tables_, tables_.now));
  forget_key(row.public_key);
  forget_key(row.member_key);
  write(row);
  ended_.insert(row.id);
  find_next_end();
  if (may_have_tickets_out(row, row.revoked_ms)) {
    tables_.nodes.key_revoked(user_id_of(row),
                              fmt::format("{} was revoked at {}", title(row), utc(row.revoked_ms)));
  }
  tables_.events.note(Severity::warning, "TOKEN_REVOKED", {},
                      fmt::format("{} of role {}", title(row), to_string(row.role)));
  return document_of(row);
}

void TokenTable::undo(const std::string& id) {
  const auto at = rows_.find(id);
  if (at == rows_.end()) return;
  forget_key(at->second.public_key);
  id_of_key_.erase(at->second.public_key);
  tables_.journal.erase("tokens", id);
  rows_.erase(at);
}

Result<std::string> TokenTable::list() const {
  const std::int64_t now_ms = wall_ms(tables_, tables_.now);
  std::vector<const TokenRow*> order;
  for (const auto& [id, row] : rows_) order.push_back(&row);
  std::stable_sort(order.begin(), order.end(), [](const TokenRow* a, const TokenRow* b) {
    return a->created_ms < b->created_ms;
  });
  Json json = document("TokenList");
  json["items"] = Json::array();
  for (const TokenRow* row : order)
    json["items"].push_back(token_json(*row, state_of(*row, now_ms)));
  json["warnings"] = Json::array();
  return json_text(json);
}

Result<std::string> TokenTable::join(const Principal& ticket, const std::string& argument) {
  const auto at = ticket.name.starts_with(ticket_prefix)
                      ? rows_.find(ticket.name.substr(ticket_prefix.size()))
                      : rows_.end();
  if (at == rows_.end())
    return denied(
        "join: only the holder of a ticket may; `mobula token create --role agent` makes one");
  TokenRow& row = at->second;
  const Json json = Json::parse(argument, nullptr, false);
  const std::string key = json.is_object() ? text_member(json, "public_key") : "";
  std::string host = json.is_object() ? text_member(json, "host") : "";
  if (!is_key(key) || host.size() > longest_name)
    return wrong("join: the request names no CURVE key, or its host has too long a name");
  if (row.used_ms != 0 && row.member_key != key) {
    mark_second_use.hit();
    return denied(
        fmt::format("join: {} was used by '{}' at {}; a ticket lets one machine in once: make "
                    "another with `mobula token create --role agent`",
                    title(row), row.used_by, utc(row.used_ms)));
  }
  if (id_of_key_.contains(key) && row.member_key != key)
    return wrong("join: another machine has this key");
  if (row.used_ms == 0) {
    row.used_ms = std::max<std::int64_t>(1, wall_ms(tables_, tables_.now));
    row.used_by = std::move(host);
    row.member_key = key;
    admit(row);
    write(row);
    tables_.events.note(Severity::info, "TOKEN_USED", {},
                        fmt::format("'{}' has joined by {}", row.used_by, title(row)));
  } else {
    mark_join_again.hit();
  }
  return document_of(row);
}

Result<Principal> TokenTable::principal_of(const std::string& public_key,
                                           std::int64_t now_ms) const {
  const auto known = id_of_key_.find(public_key);
  if (known == id_of_key_.end()) return denied("this key belongs to no token that the head knows");
  const TokenRow& row = rows_.at(known->second);
  if (row.revoked_ms != 0)
    return denied(fmt::format("{} was revoked at {}", title(row), utc(row.revoked_ms)));
  if (row.created_ms > now_ms + ms_of(tables_.options.clock_skew)) {
    return denied(fmt::format(
        "{} is not valid yet: it was made at {}, and the head's clock says {}; set the clock of "
        "the head's machine",
        title(row), utc(row.created_ms), utc(now_ms)));
  }
  if (public_key == row.member_key) return Principal{Role::agent, row.name, {}};
  // A used join token reports its use as long as its row exists.
  if (row.used_ms == 0 && expired(row, now_ms)) {
    return denied(fmt::format("{} expired at {}; the head's clock says {}", title(row),
                              utc(row.expires_ms), utc(now_ms)));
  }
  if (row.role == Role::agent)
    return Principal{Role::unproven, std::string(ticket_prefix) + row.id, {}};
  return Principal{row.role, row.name, {}};
}

}  // namespace mobula::internal::head

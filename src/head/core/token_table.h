// Tokens: who was given which, what each still allows, and which machines have joined by one. Of a
// token the head knows the public key alone, so neither its journal nor its memory lets anybody in.
// Rows are in the journal. They are judged by the head's own clock, which also dated them, so no skew
// of clocks has to be allowed for. Owned by one HeadCore; not thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "base/result.h"
#include "head/core/inputs.h"
#include "head/core/rows.h"

namespace mobula::internal::head {

struct Parts;

class TokenTable {
 public:
  explicit TokenTable(Parts& parts) : parts_(parts) {}

  void restore(const TokenRow& row);

  // Orders of tools; the argument is a JSON object, the answer a document. Journalled: the answer is
  // to wait for the journal.
  //
  // {"name", "role": "agent"|"driver"|"observer", "public_key", "expires_ms" from now, 0: never}. The
  // same key again is the same token. already_exists for the name of another that is in force.
  Result<std::string> create(const std::string& argument);
  Result<std::string> revoke(const std::string& id_or_name);
  Result<std::string> list() const;
  // Of one that was made and cannot be made durable.
  void undo(const std::string& id);
  // {"public_key", "host"} of a machine, by the ticket of this principal. The same key again is the
  // same use; another one is refused with who used it.
  Result<std::string> join(const Principal& ticket, const std::string& argument);

  Result<Principal> principal_of(const std::string& public_key, std::int64_t wall_ms) const;

 private:
  using Rows = std::map<std::string, TokenRow>;  // by id

  Result<std::string> resolve(const std::string& id_or_name) const;
  Result<void> make_room();
  void admit(const TokenRow& row);
  void forget_key(const std::string& public_key);
  void write(const TokenRow& row);
  std::string document_of(const TokenRow& row, const std::vector<std::string>& warnings = {}) const;

  Parts& parts_;
  Rows rows_;
  std::map<std::string, std::string> id_of_key_;  // tokens' keys and members', in force or not
};

// "USED", "VALID", "EXPIRED", "REVOKED".
std::string_view state_of(const TokenRow& row, std::int64_t wall_ms);

}  // namespace mobula::internal::head

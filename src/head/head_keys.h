// The keys of a head, made at its first start and kept in its folder: its CURVE pair, the pair that
// signs tickets, and the key files that it hands out: one that joins machines, one for the tools of
// its own machine. Values; for a start.
#pragma once

#include <string>

#include "base/result.h"
#include "protocol/cluster_files.h"
#include "protocol/ticket.h"
#include "transport/curve.h"
#include "transport/zap.h"

namespace mobula::internal::head {

struct HeadKeys {
  CurveKeys curve;
  SigningKeys signing;
  KeyFile join;          // <folder>/<cluster>.key, role agent
  KeyFile operator_key;  // <folder>/head/operator.key, role operator
  KeyFile observer_key;  // <folder>/head/observer.key, role observer: reads the HTTP pages

  // Reads what is there and makes what is missing. Fails naming the file. A key file that was made
  // for another head's keys is made anew.
  static Result<HeadKeys> load_or_make(const std::string& folder, const std::string& cluster);

  // Admits the key files' keys, each under its role.
  Result<void> admit(AllowTable& table) const;
};

// Lower-case hex digits, as key files have signing keys.
std::string hex_of_key(const std::string& bytes);

}  // namespace mobula::internal::head

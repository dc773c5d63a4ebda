// Source of a query for a document, and the reply to it.
// Thread: owner (one HeadCore).
#pragma once

#include <cstdint>
#include <string>
#include <variant>

#include "base/id.h"
#include "base/result.h"
#include "head/core/head_events.h"
#include "protocol/messages/head_to_process.h"
#include "protocol/messages/tools.h"

namespace mobula::internal::head {

struct HeadTables;

struct QuerySource {
  std::variant<LinkId, ProcessId> who;  // link of a tool, or a process
  std::uint64_t request = 0;            // number chosen by the source
};

// `document` is the output of `mobula list -o json`.
ToolReply tool_reply(std::uint64_t request, const Result<std::string>& document);
ReadStateReply state_read(std::uint64_t request, const Result<std::string>& document);
// `errors` belong to tasks that the document names; only tools receive them.
void answer(HeadTables& tables, const QuerySource& source, const Result<std::string>& document,
            std::vector<TaskError> errors = {});

}  // namespace mobula::internal::head

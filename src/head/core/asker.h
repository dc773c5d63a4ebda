// Who asked the head for a document, and how it is answered. Part of HeadCore.
#pragma once

#include <cstdint>
#include <string>
#include <variant>

#include "base/id.h"
#include "base/result.h"
#include "head/core/inputs.h"
#include "protocol/head_to_process.h"
#include "protocol/tools.h"

namespace mobula::internal::head {

struct Parts;

struct Asker {
  std::variant<LinkId, ProcessId> who;  // a tool by its link, or a process
  std::uint64_t request = 0;            // its own number
};

// `document` is what `mobula list -o json` prints.
ToolReply tool_reply(std::uint64_t request, const Result<std::string>& document);
StateRead state_read(std::uint64_t request, const Result<std::string>& document);
// `errors` of tasks that the document names are for tools only.
void answer(Parts& parts, const Asker& asker, const Result<std::string>& document,
            std::vector<TaskError> errors = {});

}  // namespace mobula::internal::head

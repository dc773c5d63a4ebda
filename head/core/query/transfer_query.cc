#include "head/core/query/transfer_query.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/coverage_mark.h"
#include "head/core/head_tables.h"
#include "head/core/view/transfer_json.h"

namespace mobula::internal::head {
namespace {

const CoverageMark mark_silent_process("head.transfer_answer_without_a_process");

constexpr std::size_t max_text_bytes = 4096;

// Filters the facts again, because processes of older releases apply only the filters that they
// know.
bool is_asked_for(const TransfersRequest& asked, const TransferFact& fact) {
  if (!asked.object.empty() && fact.object != asked.object) return false;
  if (fact.state == TransferState::ended) return !(asked.failed_only && asked.arrived_only);
  return std::ranges::find(asked.under_way, fact.state) != asked.under_way.end();
}

// Limits the size of one fact, so that a forged reply takes little more space than a valid one.
TransferFact bounded(TransferFact fact) {
  fact.refusals.resize(std::min(fact.refusals.size(), TransferFact::max_refusals));
  fact.sources.resize(std::min(fact.sources.size(), TransferFact::max_sources));
  const auto cut = [](std::string& text) { text.resize(std::min(text.size(), max_text_bytes)); };
  std::ranges::for_each(fact.refusals, cut);
  cut(fact.group);
  cut(fact.operation);
  fact.ago = std::max(fact.ago, Duration(0));
  return fact;
}

}  // namespace

Result<void> TransferQuery::ask(QuerySource source, const std::string& text) {
  if (queries_.is_full()) {
    return failure(ErrorCode::resource_exhausted,
                   fmt::format("{} questions about transfers are open; ask again in a moment",
                               queries_.size()));
  }
  auto filters = transfer_filters(text);
  if (!filters) return filters.error();
  TransfersRequest& asked = filters->asked;
  asked.request = queries_.next_number();
  asked.limit = parts_.options.max_tasks_per_owner;
  Question question;
  question.source = source;
  asked.job = filters->job;
  question.asked = asked;
  QueryTargets receivers =
      processes_to_ask(parts_, filters->job, question.answers.warnings, filters->node);
  add_agents(parts_, receivers, question.answers.warnings, filters->node);
  auto finished = queries_.add(asked.request, std::move(question), std::move(receivers),
                               parts_.now + parts_.options.list_timeout,
                               [&](ProcessId each) { send_to(parts_, each, asked); });
  if (finished) settle(std::move(*finished));
  return {};
}

void TransferQuery::on(ProcessId sender, NodeId node, const TransfersReply& message) {
  Question* question = queries_.accept_reply(message.request, sender);
  if (question == nullptr) return;
  TransferAnswers& answers = question->answers;
  if (!question->asked.under_way.empty() && !message.knows_under_way) ++question->older;
  const Process* row = parts_.processes.find(sender);
  answers.left_out += message.left_out;
  std::uint64_t taken = 0;
  for (const auto& fact : message.transfers) {
    if (!is_asked_for(question->asked, fact)) continue;
    if (taken++ < question->asked.limit) {
      answers.items.push_back(
          {sender, node, row == nullptr ? fact.job : row->principal.job, bounded(fact)});
    } else {
      ++answers.left_out;
    }
  }
  if (answers.items.size() > 2 * parts_.options.max_listed) keep_latest(answers);
  auto finished = queries_.finish_if_complete(message.request);
  if (finished) settle(std::move(*finished));
}

// Keeps the latest transfers of all processes together. Running ones come first, then pending ones.
void TransferQuery::keep_latest(TransferAnswers& answers) const {
  const auto place = [](const TransferItem& each) {
    const int rank = each.fact.state == TransferState::running   ? 0
                     : each.fact.state == TransferState::pending ? 1
                                                                 : 2;
    return std::pair(rank, each.fact.ago);
  };
  std::ranges::stable_sort(answers.items, {}, place);
  if (answers.items.size() <= parts_.options.max_listed) return;
  answers.left_out += answers.items.size() - parts_.options.max_listed;
  answers.items.resize(parts_.options.max_listed);
}

void TransferQuery::process_ended(ProcessId process) {
  for (auto& finished : queries_.remove_target(process)) settle(std::move(finished));
}

void TransferQuery::tick() {
  for (auto& late : queries_.expire(parts_.now)) {
    mark_silent_process.hit();
    settle(std::move(late));
  }
}

std::optional<Time> TransferQuery::next_deadline() const { return queries_.next_deadline(); }

void TransferQuery::settle(Queries::Finished&& finished) {
  Question& question = finished.query;
  warn_of_silent(parts_, finished.silent, "its list of transfers", question.answers.warnings);
  keep_latest(question.answers);
  if (question.older > 0) {
    question.answers.warnings.push_back(fmt::format(
        "{} of those asked have an older Mobula, which does not know what is on its way to them",
        question.older));
  }
  answer(parts_, question.source, transfers_json(parts_, question.answers));
}

}  // namespace mobula::internal::head

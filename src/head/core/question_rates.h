// How often each key may ask: so many questions at once, and so many a second after that, so that none
// who may look holds up the head for the others. A question costs by what it makes the head do. Bounded:
// keys that have not asked for long are forgotten, as if they had never. One thread.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "base/time.h"

namespace mobula::internal::head {

class QuestionRates {
 public:
  QuestionRates(std::uint64_t at_once, std::uint64_t per_second) : at_once_(at_once), per_second_(per_second) {}

  // Takes what the question costs from what the key has left. Nothing: go on; else when to ask again.
  std::optional<Duration> ask(Time now, const std::string& user_id, std::uint64_t cost);
  // Of an answer that was made meanwhile: the next question waits for it.
  void charge(Time now, const std::string& user_id, std::uint64_t cost);
  std::uint64_t refused() const { return refused_; }

 private:
  static constexpr std::size_t max_keys = 16'384;

  struct Left {
    Time at;
    double questions = 0;  // below 0: owed
  };
  Left& left(Time now, const std::string& user_id);

  const std::uint64_t at_once_;
  const std::uint64_t per_second_;
  std::map<std::string, Left> keys_;
  std::uint64_t refused_ = 0;
};

// What a question costs before it is answered: those that the head passes on to every node or process
// cost more.
std::uint64_t cost_of(std::string_view verb, std::string_view kind);
// What an answer of so many bytes costs beside.
std::uint64_t cost_of_answer(std::size_t bytes);

}  // namespace mobula::internal::head

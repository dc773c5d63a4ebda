// MT19937 with the two seeding rules of Python and NumPy. Each has the same words in every build.
// Thread: owner (plain value).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace mobula::internal::tune {

class MersenneTwister {
 public:
  // `init_genrand`: the rule of numpy.random.RandomState(seed).
  explicit MersenneTwister(std::uint32_t seed = 5489);
  // `init_by_array`: the rule of Python's random.seed. At least one word.
  static MersenneTwister of_words(std::span<const std::uint32_t> words);

  std::uint32_t next();
  // 53 random bits in [0, 1).
  double unit();

  template <class Self, class Archive>
  static void fields(Self& self, Archive& archive) {
    archive(self.words_, self.index_);
  }

 private:
  static constexpr std::size_t size = 624;
  void refill();

  std::array<std::uint32_t, size> words_;
  std::uint32_t index_ = size;
};

}  // namespace mobula::internal::tune

// Attentions whose rows or keys a run decides: ROWS and COLUMNS of a problem are objects that become
// numbers where they are used. The tiles of `attend`, and with `attend_by_wgmma` those of wgmma_attention.cuh,
// have other members that depend on them; they are specialised by these.

template <class P>
struct RuntimeWarpTiles {
  struct Chunks {
    __device__ __forceinline__ operator int() const { return (P::COLUMNS + 15) / 16; }
  };
  static constexpr int DEPTHS = (P::DEPTH + 15) / 16, WIDTHS = (P::WIDTH + 31) / 32;
  static constexpr Chunks CHUNKS{};
  static constexpr int ROWS = 16 * P::TILES, LINE = WIDTHS * 32 + 4;
  static constexpr float LOG2E = 1.44269504f;
  static constexpr bool HELD = DEPTHS * (P::PAIRS ? 8 : 16) <= 128;
};

// As runtime_lengths.cuh, of the tiles of keys that WGMMA multiplies. Blocks do not divide the keys: a tile
// is the least that each has.

template <class P>
struct RuntimeSharedTiles {
  static constexpr int DEPTHS = (P::DEPTH + 15) / 16, WIDTHS = (P::WIDTH + 15) / 16;
  static constexpr int ROWS = 16 * P::TILES, THREADS = 32 * P::BANDS * P::WARPS;
  static constexpr int PARTIAL = P::TILES * (WIDTHS * 8 + 4);
};

template <class P>
struct RuntimeKeyTiles {
  using S = SharedTiles<P>;
  struct Count {
    __device__ __forceinline__ operator int() const { return (P::COLUMNS + P::KEYS - 1) / P::KEYS; }
  };
  static constexpr int PANEL = P::KEYS * 8, K_PANELS = (P::DEPTH + 63) / 64, V_PANELS = (P::WIDTH + 63) / 64;
  static constexpr int TILE = (K_PANELS + V_PANELS) * PANEL;
  static constexpr Count COUNT{};
  static constexpr int AHEAD = P::STAGES - 3, STEPS = P::KEYS / 16, ROWS = 16 * P::BANDS;
  static constexpr int LINE = S::WIDTHS * 16 + 4;
  static_assert(P::TILES == 1 && P::WARPS == 1 && P::BANDS % 4 == 0 && P::KEYS % 16 == 0 && P::STAGES >= 6 && P::SPLITS == 1);
  static_assert(!P::ROUNDED && !P::Q_NORM && !P::K_NORM);
};

// Attention of a prompt that is too short for 48 rows a block of the grid to reach every multiprocessor: 24 rows, so twice as many blocks (a way that trials run). The code is that of
// `bulk_tiles.cu`; a thread has 3 x 4 pairs and 6 rows of values.

TILE_ATTEND(bulk_attend_fewer_64, 64, 24, 256, 1)
TILE_ATTEND(bulk_attend_fewer_256, 256, 24, 256, 1)

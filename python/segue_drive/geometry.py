"""Sizes of the `drive` model that the graphs, the world and the server agree on."""

FRAME_WIDTH = 224  # pixels
FRAME_HEIGHT = 128  # pixels
FRAMES_PER_SECOND = 12
FRAMES_PER_CHUNK = 2

LATENT_CHANNELS = 16
LATENT_HEIGHT = 8
LATENT_WIDTH = 14

PATCH_ROWS = 4  # a picture token covers 2 x 2 latents of both frames of a chunk
PATCH_COLUMNS = 7
NUM_PICTURE_TOKENS = PATCH_ROWS * PATCH_COLUMNS
NUM_SOUND_TOKENS = 4
NUM_TOKENS = NUM_PICTURE_TOKENS + NUM_SOUND_TOKENS
TOKEN_DIM = 128

MODEL_DIM = 192
NUM_LAYERS = 6
NUM_HEADS = 3
HEAD_DIM = 64
ROTARY_PAIRS = HEAD_DIM // 2
NUM_TIME_PAIRS = 12  # of the 32 rotary pairs: 12 turn with time, 10 with the row, 10 with the column
NUM_ROW_PAIRS = 10
NUM_COLUMN_PAIRS = 10

WINDOW_CHUNKS = 7  # past chunks that a chunk can see
PROMPT_WORDS = 12
DIRECTOR_WORDS = 40

CONTEXT_NOISE = 0.03  # noise level at which a finished chunk is shown to its successors
MASKED = -1e4  # additive attention mask of what must not be seen; finite, so that a fully masked block is harmless

SAMPLE_RATE = 24000  # Hz
CONTROLS_PER_FRAME = 8  # sound control frames per picture frame (96 a second)
CONTROL_DIM = 32  # pitch, 8 harmonics, 20 noise bands, 3 unused
SAMPLES_PER_CONTROL = 250
SAMPLES_PER_FRAME = CONTROLS_PER_FRAME * SAMPLES_PER_CONTROL

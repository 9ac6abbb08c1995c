import { Type, type Static } from 'typebox';

export const IMAGE_TYPES = ['image/png', 'image/jpeg', 'image/webp'] as const;
/** Of the file, decoded from base64. */
export const MAX_IMAGE_BYTES = 4 * 1024 * 1024;
export const MAX_IMAGE_PIXELS = 4096 * 4096;

/** A picture that a session starts from. What is too large or of another type is refused with an error that says so, not by the schema. */
export const SessionImage = Type.Object(
  {
    mimeType: Type.String({ maxLength: 64, description: `One of ${IMAGE_TYPES.join(', ')}; not animated.` }),
    data: Type.String({ minLength: 1, description: `The file, base64; at most ${MAX_IMAGE_BYTES} bytes and ${MAX_IMAGE_PIXELS} pixels. It is cropped around its middle to the model's aspect ratio.` }),
  },
  { additionalProperties: false, description: 'A picture that the session starts from. A prompt changes what it shows; without one the story goes on as the picture is.' },
);
export type SessionImage = Static<typeof SessionImage>;

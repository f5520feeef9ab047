/** The tools of the recorded answers. */
export const WEATHER = {
  name: 'get_weather',
  description: 'The weather of a city',
  parameters: {
    type: 'object',
    properties: { city: { type: 'string' } },
    required: ['city'],
    additionalProperties: false,
  },
}

export const RESULT = 'It is sunny.'

export const PROMPT = 'Hello'
